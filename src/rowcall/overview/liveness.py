"""Which of the registered workers are alive, as far as this machine can know."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from rowcall.base.text import duration
from rowcall.base.times import time_of
from rowcall.domain.job import WorkerInfo
from rowcall.drivers import liveness_file
from rowcall.operations.effects import Read
from rowcall.queue import Operation, Queue
from rowcall.store.queries.counts import NOW


class Liveness(StrEnum):
    ALIVE = "alive"
    GONE = "gone"
    SILENT = "silent"
    STOPPED = "stopped"
    """It serves no queue. It is registered while handlers that it abandoned keep slots under limits."""


def liveness(lock_path: str | None, silent_seconds: float, lease_seconds: float) -> Liveness:
    """`gone` is certain: the kernel has freed its lock. A `silent` worker may hang, or be on another host."""
    if liveness_file.is_dead(lock_path):
        return Liveness.GONE
    return Liveness.SILENT if silent_seconds > lease_seconds else Liveness.ALIVE


def liveness_of(worker: WorkerInfo, now: datetime) -> Liveness:
    state = liveness(worker.lock_path, _silent_seconds(worker, now), worker.lease_seconds)
    return Liveness.STOPPED if state == Liveness.ALIVE and worker.concurrency == 0 else state


def described(worker: WorkerInfo, now: datetime) -> str:
    """Return `alive`, `gone`, `stopped` or `silent for 40 s`."""
    state = liveness_of(worker, now)
    return f"silent for {duration(_silent_seconds(worker, now))}" if state == Liveness.SILENT else str(state)


def time_now(queue: Queue) -> Operation[datetime]:
    """Return the time by the database's clock, which set the times in its rows."""
    (now_ms,) = yield from Read(queue.dialect.ask(NOW))
    return time_of(now_ms)


def database_time(queue: Queue) -> datetime:
    """Return `time_now`, for sync code."""
    return queue.run(time_now(queue))


def _silent_seconds(worker: WorkerInfo, now: datetime) -> float:
    return (now - worker.heartbeat_at).total_seconds()
