"""`rowcall stuck`: running jobs, longest without a sign of life first, and who has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from rowcall.app import Rowcall
from rowcall.cli.present.output import NARROW_COLUMNS, console, job_as_json, print_json, table, text
from rowcall.cli.target import app_argument, existing, json_option, queue_of, url_option
from rowcall.domain.job import InProgress
from rowcall.overview.formats import duration
from rowcall.overview.liveness import Liveness, liveness_of, time_there
from rowcall.overview.scrub import scrubbed_job

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_NOT_REGISTERED = "not registered"
_WHEREABOUTS = ("host", "worker seen", "doing")


@click.command("stuck", short_help="Show running jobs, longest without a sign of life first.")
@app_argument
@url_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Jobs at most.")
@json_option
def stuck_command(app: str | None, url: str | None, limit: int, as_json: bool) -> None:
    """Show running jobs, longest without a sign of life first: who has each, where, and what it is doing.

    A sign of life is the start of the attempt, or a later heartbeat; the worker's own is told beside it.

    With --json: {"jobs": [{"id", "type", …, "silent_for", "host", "worker_silent_for", "worker_state":
    "alive" | "gone" | "silent" | null}, …]}: the fields of a job as in `rowcall jobs`, and seconds. The state is null
    where no worker of that name is registered, as for a job that was claimed by hand.
    """
    with existing(app, url) as jobs:
        found = in_progress(jobs, limit)
        states = worker_states(jobs) if found else {}
    if as_json:
        print_json({"jobs": [{**job_as_json(job), "worker_state": states.get(job.worker or "")} for job in found]})
    else:
        _print(found, states)


def in_progress(jobs: Rowcall, limit: int) -> list[InProgress]:
    """As they may be shown."""
    return [scrubbed_job(queue_of(jobs).failures, job) for job in jobs.stuck(limit=limit)]


def worker_states(jobs: Rowcall) -> dict[str, Liveness]:
    """Whether the registered workers live, by name."""
    now = time_there(queue_of(jobs))
    return {worker.name: liveness_of(worker, now) for worker in jobs.workers()}


def _print(found: Sequence[InProgress], states: Mapping[str, Liveness]) -> None:
    out = console()
    if not found:
        out.print("no running jobs")
        return
    if out.width >= NARROW_COLUMNS:
        out.print(stuck_table(found, states))
        return
    out.print(stuck_table(found, states, wide=False))
    out.print()
    out.print(_rest_table(found, states))


def stuck_table(found: Sequence[InProgress], states: Mapping[str, Liveness], *, wide: bool = True) -> Table:
    """Narrow, it has only what nobody can do without."""
    columns: tuple[str, ...] = ("id", "type", "attempt", "silent for", "worker")
    if wide:
        columns = ("id", "type", "queue", "attempt", "silent for", "runs for", "worker", *_WHEREABOUTS)
    shown = table(*columns, right=("id", "attempt", "silent for", "runs for"), whole=("worker seen",))
    for job in found:
        shown.add_row(
            *(str(job.id), text(job.type), *((text(job.queue),) if wide else ()), f"{job.attempt}/{job.max_attempts}"),
            text(duration(job.silent_for), _style(states.get(job.worker or ""))),
            *((duration(_running_seconds(job)),) if wide else ()),
            text(job.worker or ""),
            *(_whereabouts(job, states) if wide else ()),
        )
    return shown


def _rest_table(found: Sequence[InProgress], states: Mapping[str, Liveness]) -> Table:
    """What a narrow terminal has no columns for."""
    shown = table("id", "queue", "runs for", *_WHEREABOUTS, right=("id", "runs for"))
    for job in found:
        shown.add_row(str(job.id), text(job.queue), duration(_running_seconds(job)), *_whereabouts(job, states))
    return shown


def _whereabouts(job: InProgress, states: Mapping[str, Liveness]) -> list[Text]:
    state = states.get(job.worker or "")
    return [
        text(job.host or ""),
        text(_seen(job, state), _style(state)),
        text(doing(job)),
    ]


def _seen(job: InProgress, state: Liveness | None) -> str:
    if job.worker_silent_for is None:
        return _NOT_REGISTERED
    said = f"{duration(job.worker_silent_for)} ago"
    return said if state in (None, Liveness.ALIVE) else f"{said} ({state})"


def doing(job: InProgress) -> str:
    """Its progress and the message that came with it."""
    parts = [f"{job.progress:.0%}" if job.progress is not None else "", job.progress_message or ""]
    return " ".join(part for part in parts if part)


def _running_seconds(job: InProgress) -> float | None:
    """By the same clock as `silent_for`, which is counted from the heartbeat where there was one."""
    began = job.started_at or job.claimed_at
    if began is None:
        return None
    beaten = (job.heartbeat_at - began).total_seconds() if job.heartbeat_at is not None else 0.0
    return max(0.0, job.silent_for + beaten)


def _style(state: Liveness | None) -> str:
    return "red" if state in (Liveness.GONE, Liveness.SILENT) else ""
