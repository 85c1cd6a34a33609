"""A job that was not started in time is cancelled; one that was started never is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rowcall import Job, Rowcall, Status
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.worker_parts import StoreWorker, watcher

EXPIRED = (Status.CANCELLED, "EXPIRED:NOT_STARTED")


class TestExpiry:
    @pytest.mark.parametrize("by", ["expires_in", "expires_at"])
    def test_not_started_in_time_is_cancelled(self, jobs: Rowcall, clock: FakeClock, by: str) -> None:
        job = self._expiring(jobs, clock, by)
        assert job.expires_at == clock.now() + timedelta(seconds=60)
        clock.advance(60)
        assert jobs.dequeue("hand") is None
        over = jobs.get(job.id)
        assert (over.status, over.error_code) == EXPIRED
        assert over.finished_at == clock.now()
        assert over.attempt == 0
        assert jobs.attempts(job.id) == []

    @pytest.mark.parametrize("by", ["expires_in", "expires_at"])
    def test_until_then_it_can_be_claimed(self, jobs: Rowcall, clock: FakeClock, by: str) -> None:
        job = self._expiring(jobs, clock, by)
        clock.advance(59.999)
        claimed = jobs.dequeue("hand")
        assert claimed is not None
        assert claimed.id == job.id

    def _expiring(self, jobs: Rowcall, clock: FakeClock, by: str) -> Job:
        if by == "expires_in":
            return jobs.enqueue("send", expires_in=60)
        return jobs.enqueue("send", expires_at=clock.now() + timedelta(seconds=60))

    def test_a_worker_cancels_it_too(self, jobs: Rowcall, clock: FakeClock) -> None:
        ran: list[int] = []

        @jobs.task(expires_in=60)
        def note() -> None:
            ran.append(1)

        job_id = note.enqueue().id
        clock.advance(60)
        assert jobs.drain().total == 0
        assert (jobs.get(job_id).status, jobs.get(job_id).error_code) == EXPIRED
        assert ran == []

    def test_one_that_is_still_in_the_future_expires_as_well(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", delay=3600, expires_in=60)
        clock.advance(60)
        jobs.dequeue("hand")
        assert (jobs.get(job.id).status, jobs.get(job.id).error_code) == EXPIRED

    def test_a_running_job_does_not_expire(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send", expires_in=60)
        job = jobs.claim("hand", lease=3600)[0]
        clock.advance(600)
        assert jobs.dequeue("other") is None
        jobs.complete(job)
        assert jobs.get(job.id).status is Status.SUCCEEDED

    @pytest.mark.parametrize("way", ["fail", "release", "lease_runs_out", "worker_dies"])
    def test_what_was_started_once_never_expires(self, jobs: Rowcall, clock: FakeClock, way: str) -> None:
        job_id = jobs.enqueue("send", expires_in=60).id
        match way:
            case "fail":
                jobs.fail(jobs.claim("hand")[0], "TEST:CODE")
            case "release":
                jobs.release(jobs.claim("hand")[0])
            case "lease_runs_out":
                jobs.claim("hand", lease=10)
            case "worker_dies":
                StoreWorker(jobs, "victim").claim()
                others = watcher(jobs)
                others.check()
                clock.advance(15)
                assert others.check() == 1
        clock.advance(600)
        again = jobs.dequeue("hand")
        assert again is not None
        assert again.id == job_id

    def test_what_only_lay_in_a_buffer_was_not_started(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send")
        buffered = jobs.enqueue("send", expires_in=60)
        taken = StoreWorker(jobs, "victim").claim(slots=1, buffer=1)
        assert [ready.id for ready in taken.buffered] == [buffered.id]
        others = watcher(jobs)
        others.check()
        clock.advance(15)
        assert others.check() == 2
        clock.advance(60)
        jobs.claim("hand", limit=5)
        assert (jobs.get(buffered.id).status, jobs.get(buffered.id).error_code) == EXPIRED

    def test_an_expired_job_can_be_retried_by_hand(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", expires_in=60)
        clock.advance(60)
        jobs.dequeue("hand")
        jobs.retry(job.id)
        again = jobs.dequeue("hand")
        assert again is not None
        assert (again.id, again.attempt) == (job.id, 1)

    def test_many_expire_in_one_go(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        async def nothing(number: int) -> None: ...

        nothing.using(expires_in=60).enqueue_many([{"number": number} for number in range(2500)])
        clock.advance(60)
        assert jobs.drain().total == 0
        assert jobs.stats().by_status["cancelled"] == 2500
