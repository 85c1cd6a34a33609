"""Which of the registered workers are still there, as far as it can be told from here."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from rowcall.cli.output import span
from rowcall.job import WorkerInfo
from rowcall.worker import ledger


class Liveness(StrEnum):
    ALIVE = "alive"
    GONE = "gone"
    SILENT = "silent"


def liveness(lock_path: str | None, silent_seconds: float, lease_seconds: float) -> Liveness:
    """`gone` is certain: the kernel has freed its lock. `silent` is a worker that may hang, or of another host."""
    if ledger.is_dead(lock_path):
        return Liveness.GONE
    return Liveness.SILENT if silent_seconds > lease_seconds else Liveness.ALIVE


def liveness_of(worker: WorkerInfo) -> Liveness:
    return liveness(worker.lock_path, _silent_seconds(worker), worker.lease_seconds)


def described(worker: WorkerInfo) -> str:
    """`alive`, `gone` or `silent for 40 s`."""
    state = liveness_of(worker)
    return f"silent for {span(_silent_seconds(worker))}" if state == Liveness.SILENT else str(state)


def _silent_seconds(worker: WorkerInfo) -> float:
    return (datetime.now(UTC) - worker.beat_at).total_seconds()
