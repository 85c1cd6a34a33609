from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from rowcall import Rowcall, WorkerInfo
from rowcall.overview.liveness import Liveness, described, liveness_of
from rowcall.testing.deadline import eventually

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_worker(silent_seconds: float, lock_path: str | None = None) -> WorkerInfo:
    return WorkerInfo(
        name="w",
        host="h",
        pid=1,
        queues="",
        concurrency=1,
        version="1",
        started_at=NOON,
        heartbeats=1,
        heartbeat_at=NOON - timedelta(seconds=silent_seconds),
        lease_seconds=15,
        lock_path=lock_path,
        running=0,
    )


def test_a_worker_is_silent_after_its_lease() -> None:
    assert (described(a_worker(15), NOON), described(a_worker(40), NOON)) == ("alive", "silent for 40 s")


def test_a_worker_without_slots_has_stopped() -> None:
    assert described(msgspec.structs.replace(a_worker(0), concurrency=0), NOON) == "stopped"


def test_an_unlocked_file_shows_that_its_worker_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "w.alive"
    path.touch()
    assert described(a_worker(0, str(path)), NOON) == "gone"


def test_a_worker_of_this_process_is_alive_until_it_stops(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "queue.db") as jobs:
        with jobs.worker():
            (worker,) = eventually(jobs.workers)
            assert liveness_of(worker, worker.heartbeat_at) is Liveness.ALIVE
        assert worker.lock_path is not None
        assert not Path(worker.lock_path).exists() or liveness_of(worker, worker.heartbeat_at) is Liveness.GONE
