"""`rowcall replay`: one job again, with what is recorded of its steps."""

from __future__ import annotations

import contextlib
import sys
import traceback

import click

from rowcall.base.text import one_line
from rowcall.cli.command import Answer, one_job_id, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import block, text
from rowcall.cli.target import Target
from rowcall.domain.errors import RowcallError
from rowcall.domain.payload import value_from_row
from rowcall.observe.shown_exceptions import drop_callers
from rowcall.worker.replay import Replayed, replay_job


@queue_command(
    "replay",
    "Run a job here with its recorded steps, and write nothing.",
    words="ID",
    parse=one_job_id,
    needs_code=True,
)
@click.option("--run-steps", is_flag=True, help="Also call the functions of steps that are not recorded.")
def replay_command(target: Target, words: int, run_steps: bool) -> Answer:
    """Call the handler of a job with the recorded results of its steps, to look at it in a debugger. The job may have
    ended.

    Rowcall writes nothing. The replay ends at the first step that is not recorded, or has not ended. With --run-steps,
    the functions of such steps are called, and have their effects; their results are not stored.

        python -m pdb -m rowcall replay app:jobs 12

    Exit code 1 if the handler fails, or does not fit its recorded steps.

    With --json: {"job_id", "type", "ended", "result", "error_code", "error_detail", "stopped_at"}; "ended" is
    "returned", "raised" or "stopped", and "stopped_at" is null or {"position", "kind", "name"}.
    """
    with contextlib.nullcontext() if sys.stdout.isatty() else contextlib.redirect_stdout(sys.stderr):
        replayed = replay_job(target.queue, words, runs_steps=run_steps)
    stopped_at = replayed.stopped_at
    data = {
        "job_id": words,
        "type": replayed.job.type,
        "ended": _ended(replayed),
        "result": value_from_row(replayed.result),
        "error_code": replayed.error_code,
        "error_detail": replayed.error_detail,
        "stopped_at": None if stopped_at is None else stopped_at._asdict(),
    }
    return Answer(data, lambda: _show(replayed), ok=replayed.error_code is None)


def _ended(replayed: Replayed) -> str:
    return "stopped" if replayed.is_suspended else "returned" if replayed.error_code is None else "raised"


def _show(replayed: Replayed) -> None:
    heading = text(f"job {replayed.job.id}  {one_line(replayed.job.type)}  ", "bold")
    if replayed.error_code is not None:
        if replayed.error is not None and not isinstance(replayed.error, RowcallError):
            show(block("".join(traceback.format_exception(drop_callers(replayed.error))).rstrip()))
        heading.append_text(text(f"{replayed.error_code}: {one_line(replayed.error_detail or '')}", "red"))
    elif replayed.stopped_at is not None:
        at = replayed.stopped_at
        heading.append_text(text(f"stopped at step {at.position}, {at}: it has no result"))
    elif replayed.is_suspended:
        heading.append_text(text("stopped where the handler writes outside of its steps"))
    else:
        heading.append_text(text(f"returned {one_line(replayed.result or 'null')}", "green"))
    show(heading)
