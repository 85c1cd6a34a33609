"""Jobs of a lost worker are recovered, unless it is seen to live; a commit whose reply was lost is made good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.ends.attempts import leave_open
from rowcall.store.queries.claims import Fence
from rowcall.store.recovery.recover import Recovered, recover_worker, release_unknown
from tests.conformance.worker_parts import StoreWorker


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as made:
        yield made


def test_a_worker_whose_heartbeat_has_changed_is_not_lost(jobs: Rowcall) -> None:
    job, queue = jobs.enqueue("send"), queue_of(jobs)
    worker = StoreWorker(jobs, "web-1")
    worker.start_one()

    def recover(heartbeats: int) -> Recovered:
        return queue.run(Write(recover_worker, queue.dialect, worker.name, None, heartbeats=heartbeats))

    worker.heartbeat()
    assert recover(0) == Recovered([], done=False)
    assert jobs.get(job).status == "running"
    recovered = recover(1)
    assert recovered.done
    assert [one.job.id for one in recovered.attempts] == [job.id]
    assert (jobs.get(job).status, jobs.workers()) == ("pending", [])


def test_a_claim_that_the_worker_does_not_know_about_is_released(jobs: Rowcall) -> None:
    known, unknown = jobs.enqueue("send"), jobs.enqueue("send")
    worker, queue = StoreWorker(jobs, "web-1"), queue_of(jobs)
    worker.claim(slots=2)
    owned = queue.run(Write(release_unknown, queue.dialect, [worker.holder], [Fence(known.id, 1, worker.holder)]))
    assert owned == {Fence(job.id, 1, worker.holder) for job in (known, unknown)}
    assert (jobs.get(known).status, jobs.get(unknown).status) == ("running", "pending")
    assert jobs.get(unknown).attempt == 0


def test_a_job_that_its_target_has_accepted_is_not_released(jobs: Rowcall) -> None:
    """The reply to a commit was lost while a target still works on an attempt of this worker."""
    jobs.enqueue("send")
    worker, queue = StoreWorker(jobs, "web-1"), queue_of(jobs)
    ready = worker.start_one()
    assert queue.run(Write(leave_open, queue.dialect, ready.fence, "example.com", 60_000))
    owned = queue.run(Write(release_unknown, queue.dialect, [worker.holder], []))
    assert owned == {ready.fence}
    assert jobs.get(ready.id).status == "running"
