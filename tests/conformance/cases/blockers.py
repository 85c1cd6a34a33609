"""Jobs that wait for others: until when, which results they get, and what happens if a blocker does not succeed."""

from __future__ import annotations

import asyncio

import pytest

from rowcall import Cancel, Context, InvalidOption, Job, JobNotFound, Rowcall, Status
from rowcall.domain.outcome import Raised
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.cases.chains import two_steps
from tests.conformance.store import Store
from tests.conformance.worker_parts import StoreWorker


def end(jobs: Rowcall, job: Job, how: str) -> None:
    """End a job that is due, for good."""
    if how == "cancelled":
        worker = StoreWorker(jobs, "canceller")
        cancelled = Raised(Cancel("why"), "", "")
        assert worker.settle(worker.start_one(), cancelled)
        assert jobs.get(job.id).status is Status.CANCELLED
        return
    claimed = next(one for one in jobs.claim("hand", limit=100) if one.id == job.id)
    if how == "succeeded":
        jobs.complete(claimed, {"of": job.id})
    else:
        jobs.fail(claimed, "A:B", "why")


def end_only(jobs: Rowcall, job: Job) -> None:
    """End a job that is the first in turn, and take no other."""
    (claimed,) = jobs.claim("hand", limit=1)
    assert claimed.id == job.id
    jobs.complete(claimed)


def blocker(jobs: Rowcall) -> Job:
    return jobs.enqueue("blocker", max_attempts=1)


class TestBlockers:
    def test_a_job_waits_until_all_have_succeeded(self, jobs: Rowcall) -> None:
        first, second = blocker(jobs), blocker(jobs)
        job = jobs.enqueue("send", after=[first, second.id])
        assert (job.status, jobs.get(job.id)) == (Status.BLOCKED, job)
        assert [one.id for one in jobs.claim("hand", limit=10)] == [first.id, second.id]
        for one in (first, second):
            assert jobs.get(job.id).status is Status.BLOCKED
            jobs.complete(jobs.get(one.id))
        assert jobs.get(job.id).status is Status.PENDING
        assert [one.id for one in jobs.claim("hand", limit=10)] == [job.id]
        assert jobs.stats().by_status["blocked"] == 0

    def test_a_blocker_names_the_jobs_that_wait_for_it(self, jobs: Rowcall) -> None:
        first, second = blocker(jobs), blocker(jobs)
        both, one = jobs.enqueue("send", after=[first, second]), jobs.enqueue("send", queue="mail", after=first)
        assert [found.to_dict() for found in jobs.dependents(first)] == [
            {"id": both.id, "type": "send", "queue": "default", "status": "blocked", "of_chain": False, "open": True},
            {"id": one.id, "type": "send", "queue": "mail", "status": "blocked", "of_chain": False, "open": True},
        ]
        assert [found.id for found in asyncio.run(jobs.adependents(second.id))] == [both.id]
        assert [found.id for found in jobs.dependents(first, limit=1)] == [both.id]
        end(jobs, first, "succeeded")
        assert [(found.status, found.open) for found in jobs.dependents(first)] == [
            ("blocked", False),
            ("pending", False),
        ]
        jobs.delete(one)
        assert [found.id for found in jobs.dependents(first)] == [both.id]
        for wrong in (0, 1001, True):
            with pytest.raises(InvalidOption, match="limit"):
                jobs.dependents(first, limit=wrong)
        jobs.delete(both)
        jobs.delete(first)
        with pytest.raises(JobNotFound):
            jobs.dependents(first)

    def test_a_step_names_its_next_step_and_the_jobs_that_wait_for_the_chain(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        after = jobs.enqueue("send", after=[chain])
        first, last = chain.steps
        assert [(found.id, found.of_chain) for found in jobs.dependents(chain)] == [(after.id, True)]
        assert [(found.id, found.of_chain) for found in jobs.dependents(first)] == [(last.id, False), (after.id, True)]
        assert [(found.id, found.of_chain) for found in jobs.dependents(last.id)] == [(after.id, True)]
        jobs.delete_chain(chain, cascade=True)
        with pytest.raises(JobNotFound):
            jobs.dependents(chain)

    def test_the_handler_has_their_results_in_the_order_given(self, jobs: Rowcall) -> None:
        @jobs.task
        def part(number: int) -> dict[str, int]:
            return {"part": number}

        @jobs.task
        def whole(ctx: Context) -> list[object]:
            return ctx.blockers

        parts = [part.enqueue(number) for number in range(5)]
        job = whole.using(after=[parts[3], parts[0], parts[4]]).enqueue()
        alone = whole.enqueue()
        jobs.drain()
        assert jobs.get(job.id).result == [{"part": 3}, {"part": 0}, {"part": 4}]
        assert jobs.get(alone.id).result == []

    def test_async_handlers_read_them_as_well(self, jobs: Rowcall) -> None:
        @jobs.task
        async def part() -> int:
            return 7

        @jobs.task
        async def whole(ctx: Context) -> list[object]:
            return ctx.blockers

        job = whole.using(after=part.enqueue()).enqueue()
        jobs.drain()
        assert jobs.get(job.id).result == [7]

    def test_one_that_is_named_twice_counts_once(self, jobs: Rowcall) -> None:
        one = blocker(jobs)
        job = jobs.enqueue("send", after=[one, one.id, jobs.get(one.id)])
        end(jobs, one, "succeeded")
        assert jobs.get(job.id).status is Status.PENDING

    def test_one_that_has_succeeded_already_counts_at_once(self, jobs: Rowcall) -> None:
        @jobs.task
        def whole(ctx: Context) -> list[object]:
            return ctx.blockers

        done, open_one = blocker(jobs), jobs.enqueue("other", delay=60)
        end(jobs, done, "succeeded")
        job = whole.using(after=done).enqueue()
        assert (job.status, jobs.get(job.id).status) == (Status.PENDING, Status.PENDING)
        assert whole.using(after=[done, open_one]).enqueue().status is Status.BLOCKED
        assert whole.using(after=done, delay=60).enqueue().status is Status.SCHEDULED
        jobs.drain()
        assert jobs.get(job.id).result == [{"of": done.id}]

    def test_a_job_waits_for_its_time_as_well(self, jobs: Rowcall, clock: FakeClock) -> None:
        one = blocker(jobs)
        job = jobs.enqueue("send", after=one, delay=60)
        clock.advance(30)
        end(jobs, one, "succeeded")
        assert jobs.get(job.id).status is Status.SCHEDULED
        assert jobs.dequeue("hand") is None
        clock.advance(30)
        assert [one.id for one in jobs.claim("hand")] == [job.id]

    def test_its_time_alone_does_not_start_it(self, jobs: Rowcall, clock: FakeClock) -> None:
        one = jobs.enqueue("blocker", queue="other")
        job = jobs.enqueue("send", after=one, delay=60)
        clock.advance(600)
        assert [claimed.id for claimed in jobs.claim("hand", limit=10)] == [one.id]
        assert jobs.get(job.id).status is Status.BLOCKED

    def test_a_chain_blocks_until_its_last_step_has_succeeded(self, jobs: Rowcall) -> None:
        @jobs.task
        def whole(ctx: Context) -> list[object]:
            return ctx.blockers

        chain = two_steps(jobs)
        after_chain, after_first = whole.using(after=chain).enqueue(), whole.using(after=chain.steps[0]).enqueue()
        jobs.complete(jobs.claim("hand")[0], 1)
        assert [jobs.get(job.id).status for job in (after_chain, after_first)] == [Status.BLOCKED, Status.PENDING]
        jobs.drain()
        assert jobs.get(after_chain.id).result == [3]
        assert jobs.get(after_first.id).result == [1]
        assert whole.using(after=jobs.chain(chain.id)).enqueue().status is Status.PENDING

    def test_a_chain_that_grows_blocks_until_it_has_ended(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def count(ctx: Context, left: int) -> int:
            clock.advance(1)
            if left:
                ctx.continue_with(count, left=left - 1)
            return left

        chain = jobs.start_chain([count.bind(3)])
        job = jobs.enqueue("send", after=chain)
        jobs.drain(queues=["default"])
        assert jobs.chain(chain.id).length == 4
        last = jobs.chain(chain.id).steps[-1]
        unblocked = [event.at for event in jobs.timeline(job.id) if event.event == "UNBLOCKED"]
        assert (jobs.get(job.id).status, unblocked) == (Status.PENDING, [last.finished_at])

    def test_those_that_were_pending_before_it_come_first(self, jobs: Rowcall) -> None:
        one = blocker(jobs)
        job = jobs.enqueue("send", after=one)
        before = [jobs.enqueue("send").id for _ in range(3)]
        end_only(jobs, one)
        later = [jobs.enqueue("send").id for _ in range(3)]
        assert [claimed.id for claimed in jobs.claim("hand", limit=10)] == [*before, job.id, *later]

    def test_priority_goes_before_turns(self, jobs: Rowcall) -> None:
        one = blocker(jobs)
        urgent, job = jobs.enqueue("send", after=one, priority=5), jobs.enqueue("send", after=one)
        before = jobs.enqueue("send").id
        end_only(jobs, one)
        assert [claimed.id for claimed in jobs.claim("hand", limit=10)] == [urgent.id, before, job.id]

    def test_the_timeline_says_since_when_it_waited_and_when_that_ended(self, jobs: Rowcall, clock: FakeClock) -> None:
        one = blocker(jobs)
        job = jobs.enqueue("send", after=one)
        assert [event.event for event in jobs.timeline(job.id)] == ["ENQUEUED", "BLOCKED"]
        clock.advance(10)
        end(jobs, one, "succeeded")
        told = {event.event: event.at for event in jobs.timeline(job.id)}
        assert told["UNBLOCKED"] == clock.now()
        assert [event.event for event in jobs.timeline(one.id)].count("BLOCKED") == 0

    @pytest.mark.parametrize("wrong", [12345, 2**62])
    def test_what_is_not_there_is_refused(self, jobs: Rowcall, store: Store, wrong: int) -> None:
        one = blocker(jobs)
        with pytest.raises(InvalidOption, match=f"no such job {wrong}"):
            jobs.enqueue("send", after=[one, wrong])
        assert store.execute("select count(*) from rowcall_job") == [(1,)]

    def test_what_is_deleted_is_refused(self, jobs: Rowcall) -> None:
        one = blocker(jobs)
        jobs.delete(one.id)
        with pytest.raises(InvalidOption, match="after"):
            jobs.enqueue("send", after=one)

    def test_it_expires_while_it_waits(self, jobs: Rowcall, clock: FakeClock) -> None:
        one = jobs.enqueue("blocker", delay=1000)
        job = jobs.enqueue("send", after=one, expires_in=60)
        below = jobs.enqueue("below", after=job)
        clock.advance(60)
        assert jobs.dequeue("hand") is None
        done = jobs.get(job.id)
        assert (done.status, done.error_code) == (Status.CANCELLED, "EXPIRED:NOT_STARTED")
        assert (jobs.get(below.id).status, jobs.get(below.id).error_code) == (Status.CANCELLED, "BLOCKER:CANCELLED")

    def test_what_is_recovered_and_succeeds_later_still_unblocks(self, jobs: Rowcall, clock: FakeClock) -> None:
        one = jobs.enqueue("blocker")
        job = jobs.enqueue("send", after=one)
        jobs.claim("hand", lease=10)
        clock.advance(11)
        (again,) = jobs.claim("other")
        assert (again.id, jobs.get(job.id).status) == (one.id, Status.BLOCKED)
        jobs.complete(again)
        assert jobs.get(job.id).status is Status.PENDING
