"""`rowcall workers`: the registered worker processes, and whether they are alive."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import is_narrow, show
from rowcall.cli.present.text_tables import table_of, text
from rowcall.cli.target import Target
from rowcall.domain.job import WorkerInfo
from rowcall.overview.formats import ago
from rowcall.overview.liveness import Liveness, database_time, described, liveness_of


@queue_command("workers")
def workers_command(target: Target) -> Answer:
    """List the worker processes that are registered now.

    A worker that was killed stays on the list as "gone" until another worker recovers its jobs. A "stopped" worker is
    listed while handlers that it abandoned keep slots under limits.

    With --json: {"workers": [{"name", "host", "pid", "queues", "concurrency", "version", "started_at", "heartbeats",
    "heartbeat_at", "lease_seconds", "lock_path", "running", "buffered", "tasks",
    "state": "alive" | "gone" | "silent" | "stopped"}, …]}.
    """
    workers, now = target.jobs.workers(), database_time(target.queue)
    data = {"workers": workers_as_json(target)}
    none = f"no workers; start one with: {target.work_command}"
    return Answer(data, lambda: _show(workers, now) if workers else show(none))


def workers_as_json(target: Target) -> list[dict[str, object]]:
    now = database_time(target.queue)
    return [{**worker.to_dict(), "state": liveness_of(worker, now)} for worker in target.jobs.workers()]


def _show(workers: list[WorkerInfo], now: datetime) -> None:
    def state(worker: WorkerInfo) -> object:
        said = described(worker, now)
        return text(said, "" if said in (Liveness.ALIVE, Liveness.STOPPED) else "red")

    columns: dict[str, Callable[[WorkerInfo], object]] = {
        "worker": lambda worker: worker.name,
        "pid": lambda worker: str(worker.pid),
        "state": state,
        "queues": lambda worker: worker.queues,
        "running": lambda worker: worker.running,
        "of": lambda worker: worker.concurrency,
        "buffered": lambda worker: worker.buffered,
        "started": lambda worker: ago(worker.started_at, now),
        "last heartbeat": lambda worker: ago(worker.heartbeat_at, now),
    }
    if is_narrow():
        del columns["pid"]  # the names have it
    show(table_of(workers, columns, right=("pid", "running", "of", "buffered")))
