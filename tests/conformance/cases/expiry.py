"""A job that was not started in time is cancelled; one that was started never is."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from rowcall import Backoff, Context, InvalidOption, Job, JobOutcome, Limit, Rowcall, Status
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


OVERDUE = (Status.FAILED, "DEADLINE:PASSED")


class TestDeadline:
    def test_it_counts_from_the_first_time_over_all_attempts(self, jobs: Rowcall, clock: FakeClock) -> None:
        ended: list[str] = []

        @jobs.task(deadline=timedelta(seconds=100), retry=Backoff.constant(40))
        def fails() -> None:
            raise ConnectionError("no route")

        @fails.on_failure
        def note(job: JobOutcome) -> None:
            ended.append(f"{job.error_code} after {job.attempt}")

        @jobs.task(deadline=100)
        def sleeps(ctx: Context) -> None:
            ctx.sleep(3600)

        job, sleeping = fails.using(delay=10).enqueue(), sleeps.enqueue()
        assert job.deadline_at == clock.now() + timedelta(seconds=110)
        assert jobs.get(job).deadline_at == job.deadline_at
        for seconds in (10, 40, 40, 19):
            clock.advance(seconds)
            jobs.drain()
        assert (jobs.get(job).status, jobs.get(job).attempt) == (Status.SCHEDULED, 3)
        assert (jobs.get(sleeping).status, jobs.get(sleeping).error_code) == OVERDUE
        clock.advance(1)
        jobs.drain()
        over = jobs.get(job)
        assert (over.status, over.error_code, over.attempt) == (*OVERDUE, 3)
        assert over.error_detail is not None
        assert over.error_detail.startswith("not finished by ")
        assert ended == ["DEADLINE:PASSED after 3"]
        assert jobs.timeline(job)[-1].event == "FAILED"
        jobs.retry(sleeping)
        events = [entry.event for entry in jobs.timeline(sleeping)]
        assert events.count("FAILED") == 1
        assert jobs.stats().by_status["failed"] == 1

    @pytest.mark.parametrize("lane", ["thread", "loop"])
    def test_an_attempt_that_runs_ends_as_by_a_timeout(self, jobs: Rowcall, lane: str) -> None:
        stopped = threading.Event()

        def in_a_thread(ctx: Context) -> None:
            while not ctx.cancelled:
                stopped.wait(0.01)
            stopped.set()

        async def on_the_loop() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        declare = jobs.task(deadline=0.1, timeout=3600)
        job = (declare(in_a_thread) if lane == "thread" else declare(on_the_loop)).enqueue()
        jobs.drain()
        assert stopped.wait(30)
        over = jobs.get(job)
        assert (over.status, over.error_code, over.attempt) == (*OVERDUE, 1)
        assert len(jobs.attempts(job)) == 1

    def test_a_pending_or_held_job_that_nobody_claims_ends(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send", deadline=60)
        mine = jobs.dequeue("hand", lease=3600)
        paused = jobs.enqueue("send", queue="later", deadline=60)
        unknown = jobs.enqueue("unknown", deadline=60)
        limit = Limit("one", concurrency=1)
        held = [jobs.enqueue("send", limit=limit, deadline=60 + 60 * number, queue="b") for number in range(2)]
        jobs.pause("later")
        assert mine is not None
        assert len(jobs.claim("hand", limit=5, queues=["b"], lease=3600)) == 1
        clock.advance(60)
        jobs.drain()
        assert [(jobs.get(one).status, jobs.get(one).error_code) for one in (paused, unknown)] == [OVERDUE] * 2
        assert jobs.get(held[1]).status is Status.PENDING
        clock.advance(60)
        jobs.drain()
        assert (jobs.get(held[1]).status, jobs.get(held[1]).error_code) == OVERDUE
        jobs.complete(mine)  # a claim by hand ends by its lease
        assert jobs.get(mine).status is Status.SUCCEEDED

    def test_time_spent_blocked_or_put_off_does_not_count(self, jobs: Rowcall, clock: FakeClock) -> None:
        first = jobs.enqueue("send")
        second = jobs.enqueue("send", after=first, deadline=60)
        moved = jobs.enqueue("send", deadline=60, delay=10)
        clock.advance(600)
        jobs.reschedule(moved, delay=1000)
        claimed = jobs.dequeue("hand")
        assert claimed is not None
        jobs.complete(claimed)
        assert jobs.get(second).deadline_at == clock.now() + timedelta(seconds=60)
        assert jobs.get(moved).deadline_at == clock.now() + timedelta(seconds=1060)
        clock.advance(59)
        assert jobs.dequeue("hand") is not None

    def test_a_retry_by_hand_has_no_deadline(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = jobs.enqueue("send", deadline=60, key="k", on_duplicate="replace")
        clock.advance(30)
        assert jobs.enqueue("send", deadline=60, key="k", on_duplicate="replace").id == job.id
        assert jobs.get(job).deadline_at == clock.now() + timedelta(seconds=60)
        clock.advance(60)
        assert jobs.dequeue("hand") is None
        assert jobs.retry(job).deadline_at is None
        clock.advance(600)
        assert jobs.dequeue("hand") is not None

    @pytest.mark.parametrize("wrong", [0, -1, "soon", True])
    def test_a_wrong_deadline_is_refused(self, jobs: Rowcall, wrong: object) -> None:
        with pytest.raises(InvalidOption, match="deadline"):
            jobs.enqueue("send", deadline=wrong)  # type: ignore[arg-type]
