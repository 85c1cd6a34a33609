"""`rowcall check`: whether jobs that have not ended fit the present code."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import Counter
from collections.abc import Iterator

import click

from rowcall.base.text import one_line
from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import Table, text
from rowcall.cli.target import Target
from rowcall.overview.formats import counted
from rowcall.worker.replay import NOT_DECLARED_CODE, Replayed, check_jobs

MOST_SHOWN = 50


@queue_command("check", "Try the jobs that have not ended against the present code.", needs_code=True)
@click.option("--declared", is_flag=True, help="Leave out jobs of tasks that the app does not declare.")
def check_command(target: Target, declared: bool) -> Answer:
    """Try all jobs that have not ended against the present code, before a deploy: their arguments, and their steps.

    The handler of a job with recorded steps is called with their results, up to its first step that is not recorded.
    Rowcall writes nothing. Code of the handler outside of steps runs, in the lifespan of the app.

    Exit code 1 if a job does not fit.

    With --json: {"checked", "with_steps", "breaking": [{"job_id", "type", "error_code", "error_detail"}, …]}.
    """
    counts, breaking = Counter[str](), []
    with quiet():
        for replayed in check_jobs(target.queue):
            if declared and replayed.error_code == NOT_DECLARED_CODE:
                continue
            counts["checked"] += 1
            counts["with_steps"] += replayed.has_steps
            if replayed.breaks:
                breaking.append(breaking_as_json(replayed))
    data = {"checked": counts["checked"], "with_steps": counts["with_steps"], "breaking": breaking}
    return Answer(data, lambda: _show(counts, breaking), ok=not breaking)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what handlers print out of the answer, and what they log out of the terminal."""
    was = logging.root.manager.disable
    logging.disable()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        logging.disable(was)


def breaking_as_json(replayed: Replayed) -> dict[str, object]:
    job = replayed.job
    detail = replayed.error_detail
    return {"job_id": job.id, "type": job.type, "error_code": replayed.error_code, "error_detail": detail}


def _show(counts: Counter[str], breaking: list[dict[str, object]]) -> None:
    checked = f"{counted(counts['checked'], 'job')} checked, {counts['with_steps']:,} with recorded steps"
    if not breaking:
        show(text(f"{checked}: all fit", "green"))
        return
    show(text(f"{checked}: {len(breaking):,} would break", "red"))
    table = Table("job", "task", "error", "what does not fit", notes=("what does not fit",))
    for one in breaking[:MOST_SHOWN]:
        table.add_row(*(one_line(str(value)) for value in one.values()))
    show(table)
    if len(breaking) > MOST_SHOWN:
        show(text(f"and {len(breaking) - MOST_SHOWN:,} more; --json lists all", "dim"))
