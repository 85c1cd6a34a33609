"""`rowcall stuck`: running jobs, longest without a heartbeat first, and their workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rowcall.base.text import duration
from rowcall.cli.command import Answer, limit_option, queue_command
from rowcall.cli.commands.jobs import job_as_json
from rowcall.cli.present.console import show
from rowcall.cli.present.text_tables import Table, table_of, text
from rowcall.cli.target import Target
from rowcall.domain.job import InProgress, WorkerInfo
from rowcall.overview.jobs import progress, running_seconds
from rowcall.overview.liveness import Liveness, database_time, liveness_of
from rowcall.overview.scrub import scrubbed


@queue_command("stuck", "Show running jobs, longest without a heartbeat first.")
@limit_option
def stuck_command(target: Target, limit: int) -> Answer:
    """Show running jobs, longest without a heartbeat first: the worker of each, its host, and the job's progress.

    A job without a heartbeat counts from the start of its attempt.

    With --json: {"jobs": [{"id", "type", …, "silent_for", "host", "worker_silent_for", "worker_state": "alive" |
    "gone" | "silent" | null}, …]}: the fields of a job as in `rowcall jobs`; times are seconds. The state is null if no
    worker of that name is registered, as for a job that was claimed by hand.
    """
    jobs = in_progress(target, limit)
    states = worker_states(target) if jobs else {}
    return Answer({"jobs": in_progress_as_json(jobs, states)}, lambda: _show(jobs, states))


def in_progress(target: Target, limit: int) -> list[InProgress]:
    return [scrubbed(target.queue.declared.failures, job) for job in target.jobs.stuck(limit=limit)]


def worker_states(target: Target, workers: Sequence[WorkerInfo] | None = None) -> dict[str, Liveness]:
    """Return whether each registered worker is alive."""
    now = database_time(target.queue)
    found = target.jobs.workers() if workers is None else workers
    return {worker.name: liveness_of(worker, now) for worker in found}


def in_progress_as_json(jobs: Sequence[InProgress], states: Mapping[str, Liveness]) -> list[dict[str, object]]:
    return [{**job_as_json(job), "worker_state": states.get(job.worker or "")} for job in jobs]


def _show(jobs: Sequence[InProgress], states: Mapping[str, Liveness]) -> None:
    if not jobs:
        show("no running jobs")
    else:
        show(stuck_table(jobs, states))


def stuck_table(jobs: Sequence[InProgress], states: Mapping[str, Liveness]) -> Table:
    def style(job: InProgress) -> str:
        return "" if states.get(job.worker or "") in (None, Liveness.ALIVE) else "red"

    columns: dict[str, Callable[[InProgress], object]] = {
        "id": lambda job: str(job.id),
        "type": lambda job: job.type,
        "queue": lambda job: job.queue,
        "attempt": lambda job: f"{job.attempt}/{job.max_attempts}",
        "silent for": lambda job: text(duration(job.silent_for), style(job)),
        "running for": lambda job: duration(running_seconds(job)),
        "worker": lambda job: job.worker,
        "host": lambda job: job.host,
        "worker seen": lambda job: text(_seen(job, states), style(job)),
        "progress": progress,
    }
    right = ("id", "attempt", "silent for", "running for")
    return table_of(jobs, columns, right=right, whole=("worker", "worker seen"))


def _seen(job: InProgress, states: Mapping[str, Liveness]) -> str:
    if job.worker_silent_for is None:
        return "not registered"
    state = states.get(job.worker or "", Liveness.ALIVE)
    said = f"{duration(job.worker_silent_for)} ago"
    return said if state == Liveness.ALIVE else f"{said} ({state})"
