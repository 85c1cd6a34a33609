"""The machine's clock is set while jobs run: nothing is stolen, nothing is stuck."""

from __future__ import annotations

import threading

import pytest

from rowcall import Rowcall, Status
from rowcall.domain.outcome import Succeeded
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.worker_parts import StoreWorker, watcher

HOUR = 3600


@pytest.mark.concurrency
class TestClockJumps:
    @pytest.mark.parametrize("jumps", [(HOUR, -HOUR), (-HOUR, HOUR), (HOUR, HOUR), (-HOUR, -HOUR)], ids=str)
    def test_running_workers_do_not_notice(
        self, open_queue: OpenQueue, clock: FakeClock, jumps: tuple[int, int]
    ) -> None:
        queues = [open_queue(clock=clock) for _ in range(2)]
        gate = threading.Event()
        starts: list[int] = []
        for queue in queues:
            self._declare_held(queue, starts, gate)
        jobs = queues[0]
        ids = [jobs.enqueue("held", {"number": number}).id for number in range(6)]
        others = watcher(jobs)
        with queues[0].worker(concurrency=2), queues[1].worker(concurrency=2):
            eventually(lambda: len(starts) == 4, message="four started")
            others.check()
            for jump in jumps:
                clock.jump(jump)
                assert others.check() == 0
                ids.append(jobs.enqueue("held", {"number": len(ids)}).id)
            gate.set()
            eventually(lambda: jobs.stats().by_status["succeeded"] == len(ids), message="all succeeded")
        assert sorted(starts) == list(range(len(ids)))
        assert {jobs.get(job_id).attempt for job_id in ids} == {1}

    def _declare_held(self, jobs: Rowcall, starts: list[int], gate: threading.Event) -> None:
        @jobs.task
        def held(number: int) -> None:
            starts.append(number)
            assert gate.wait(30)

    @pytest.mark.parametrize("jump", [HOUR, -HOUR])
    def test_a_beat_counts_and_not_when_it_was(self, jobs: Rowcall, clock: FakeClock, jump: int) -> None:
        jobs.enqueue("send")
        worker = StoreWorker(jobs, "alive")
        ready = worker.start_one()
        others = watcher(jobs)
        for _ in range(5):
            others.check()
            clock.jump(jump)
            assert others.check() == 0
            clock.advance_monotonic(10)
            assert worker.heartbeat()
        assert worker.settle(ready, Succeeded())

    @pytest.mark.parametrize("jump", [HOUR, -HOUR])
    def test_a_dead_worker_is_found_anyway(self, jobs: Rowcall, clock: FakeClock, jump: int) -> None:
        job_id = jobs.enqueue("send").id
        StoreWorker(jobs, "victim").claim()
        others = watcher(jobs)
        others.check()
        clock.jump(jump)
        clock.advance_monotonic(15)
        assert others.check() == 1
        assert jobs.get(job_id).status is Status.PENDING

    def test_a_delayed_job_waits_for_the_clock_as_it_is_set(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send", delay=1800)
        clock.jump(-HOUR)
        assert jobs.dequeue("hand") is None
        clock.jump(HOUR)
        assert jobs.dequeue("hand") is None
        clock.jump(HOUR)
        assert jobs.dequeue("hand") is not None

    def test_a_claim_is_never_reported_before_the_enqueue(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send")
        clock.jump(-HOUR)
        claimed = jobs.dequeue("hand")
        assert claimed is not None
        found = jobs.get(job.id)
        assert claimed.claimed_at == found.claimed_at == found.started_at == job.created_at
        assert [event.event for event in jobs.timeline(job.id)] == ["ENQUEUED", "CLAIMED", "STARTED"]
