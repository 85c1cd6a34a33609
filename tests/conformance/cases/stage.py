"""Scheduled jobs can be claimed when they are due, and not before."""

from __future__ import annotations

from datetime import timedelta

from rowcall import Rowcall, Status
from rowcall.testing.fake_clock import FakeClock


class TestStage:
    def test_a_delayed_job_is_claimable_exactly_when_it_is_due(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send", delay=60).id
        clock.advance(59.999)
        assert jobs.dequeue("hand") is None
        assert jobs.get(job_id).status is Status.SCHEDULED
        clock.advance(0.001)
        job = jobs.dequeue("hand")
        assert job is not None
        assert job.id == job_id
        assert job.claimed_at == job.run_at

    def test_a_run_at_is_kept_to_the_millisecond(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send", run_at=clock.now() + timedelta(milliseconds=1))
        assert jobs.dequeue("hand") is None
        clock.advance(0.001)
        assert jobs.dequeue("hand") is not None

    def test_a_future_job_of_high_priority_does_not_hide_what_is_due(self, jobs: Rowcall) -> None:
        for _ in range(20):
            jobs.enqueue("send", delay=3600, priority=1000)
        due = jobs.enqueue("send")
        assert [job.id for job in jobs.claim("hand", limit=10)] == [due.id]

    def test_once_due_priority_counts_and_not_when_it_was_due(self, jobs: Rowcall, clock: FakeClock) -> None:
        early = jobs.enqueue("send", delay=10).id
        late = jobs.enqueue("send", delay=20, priority=1).id
        clock.advance(20)
        assert [job.id for job in jobs.claim("hand", limit=2)] == [late, early]

    def test_thousands_that_are_due_at_once_all_run(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        async def nothing(number: int) -> None: ...

        nothing.using(delay=3600).enqueue_many([{"number": number} for number in range(2500)])
        assert jobs.drain().total == 0
        clock.advance(3600)
        assert jobs.drain().succeeded == 2500

    def test_the_other_queues_wait_for_nothing(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue("send", queue="later", delay=60)
        now = jobs.enqueue("send", queue="now")
        assert [job.id for job in jobs.claim("hand", limit=5)] == [now.id]

    def test_a_clock_set_back_hides_nothing_that_was_due(self, jobs: Rowcall, clock: FakeClock) -> None:
        job_id = jobs.enqueue("send").id
        clock.jump(-3600)
        job = jobs.dequeue("hand")
        assert job is not None
        assert job.id == job_id
