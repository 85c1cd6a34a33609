"""Claim jobs by hand, run them, and settle them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from rowcall import (
    Backoff,
    Context,
    Fail,
    InvalidArguments,
    InvalidOption,
    Job,
    JobNotFound,
    Retry,
    Rowcall,
    Snooze,
    Status,
    StepTaken,
    WrongState,
)
from rowcall.testing.fake_clock import FakeClock


class TestByHand:
    def test_complete_keeps_the_result(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = _claimed(jobs)
        clock.advance(3)
        jobs.complete(job, result={"ok": [1, 2]})
        done = jobs.get(job.id)
        assert (done.status, done.result, done.attempt, done.worker) == (Status.SUCCEEDED, {"ok": [1, 2]}, 1, "hand")
        assert done.finished_at == clock.now()
        assert done.started_at == clock.now() - timedelta(seconds=3)

    def test_fail_by_code_is_retried_by_the_default_policy(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = _claimed(jobs)
        jobs.fail(job, "TIMEOUT:UPSTREAM_API", "30 s")
        waiting = jobs.get(job.id)
        assert (waiting.status, waiting.attempt) == (Status.SCHEDULED, 1)
        assert waiting.run_at == clock.now() + timedelta(seconds=30)
        assert (waiting.error_code, waiting.error_detail) == ("TIMEOUT:UPSTREAM_API", "30 s")

    def test_fail_on_the_last_attempt_is_final(self, jobs: Rowcall) -> None:
        job = _claimed(jobs, max_attempts=1)
        jobs.fail(job, "TIMEOUT:UPSTREAM_API")
        assert (jobs.get(job.id).status, jobs.get(job.id).error_code) == (Status.FAILED, "TIMEOUT:UPSTREAM_API")

    def test_fail_with_an_exception_says_what_it_was(self, jobs: Rowcall) -> None:
        job = _claimed(jobs)
        jobs.fail(job, KeyError("where"))
        assert jobs.get(job.id).error_code == "INTERNAL:KeyError"

    def test_fail_with_a_word_of_the_handler_means_what_it_means_there(self, jobs: Rowcall, clock: FakeClock) -> None:
        failed, snoozed, retried = (_claimed(jobs) for _ in range(3))
        jobs.fail(failed, Fail("TEST:OVER", "done with"))
        jobs.fail(snoozed, Snooze(delay=60))
        jobs.fail(retried, Retry(delay=7))
        assert (jobs.get(failed.id).status, jobs.get(failed.id).error_code) == (Status.FAILED, "TEST:OVER")
        assert (jobs.get(snoozed.id).status, jobs.get(snoozed.id).attempt) == (Status.SCHEDULED, 0)
        assert jobs.get(retried.id).run_at == clock.now() + timedelta(seconds=7)

    def test_fail_follows_the_row_s_own_policy(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = _claimed(jobs, retry=Backoff.constant(11))
        jobs.fail(job, "TEST:CODE")
        assert jobs.get(job.id).run_at == clock.now() + timedelta(seconds=11)

    def test_release_uses_up_no_attempt(self, jobs: Rowcall) -> None:
        job_id = jobs.enqueue("send", max_attempts=1).id
        for _ in range(5):
            job = jobs.dequeue("hand")
            assert job is not None
            assert job.attempt == 1
            jobs.release(job)
            waiting = jobs.get(job_id)
            assert (waiting.status, waiting.attempt, waiting.max_attempts) == (Status.PENDING, 0, 1)
        assert [(one.attempt, one.status) for one in jobs.attempts(job_id)] == [(1, "released")] * 5

    def test_a_released_job_keeps_its_turn(self, jobs: Rowcall) -> None:
        first, second = jobs.enqueue("send").id, jobs.enqueue("send").id
        job = jobs.dequeue("hand")
        assert job is not None
        jobs.release(job)
        assert [job.id for job in jobs.claim("hand", limit=2)] == [first, second]

    def test_heartbeat_renews_the_lease(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = _claimed(jobs, lease=100)
        for _ in range(5):
            clock.advance(99)
            jobs.heartbeat(job)
            assert jobs.get(job.id).heartbeat_at == clock.now()
            assert jobs.dequeue("other") is None
        clock.advance(99.999)
        assert jobs.dequeue("other") is None
        clock.advance(0.001)
        again = jobs.dequeue("other")
        assert again is not None
        assert (again.id, again.attempt) == (job.id, 2)

    def test_late_but_still_one_s_own(self, jobs: Rowcall, clock: FakeClock) -> None:
        job = _claimed(jobs, lease=10)
        clock.advance(1000)  # the lease is over, and no one has recovered the job yet
        jobs.complete(job)
        assert jobs.get(job.id).status is Status.SUCCEEDED

    def test_a_waiting_job_is_completed_by_its_id(self, jobs: Rowcall) -> None:
        @jobs.task
        def ship(ctx: Context, order: int) -> object:
            return ctx.previous

        approval = jobs.enqueue("approve", delay=3600, tags=["approval"])
        waiting = jobs.enqueue("notify", after=approval)
        jobs.complete(approval.id, {"approved": True}, then=ship.bind(7), actor="ann")
        done = jobs.get(approval)
        assert (done.status, done.result, done.attempt) == ("succeeded", {"approved": True}, 0)
        assert ("COMPLETED", "ann") in [(event.event, event.actor) for event in jobs.timeline(approval)]
        assert [job.id for job in jobs.list(tag="approval", status="succeeded").jobs] == [approval.id]
        assert jobs.get(waiting).status == "pending"
        jobs.drain()
        chain = jobs.chain(approval.id)
        assert (chain.length, chain.status, chain.result) == (2, "succeeded", {"approved": True})

    def test_what_runs_or_has_finished_is_not_completed_by_its_id(self, jobs: Rowcall) -> None:
        @jobs.task
        def after() -> None: ...

        jobs.enqueue("count")
        job = jobs.dequeue("by hand")
        assert job is not None
        with pytest.raises(WrongState, match="is running"):
            jobs.complete(job.id)
        jobs.complete(job, 1, then=after.bind())
        with pytest.raises(WrongState, match="has already succeeded"):
            jobs.complete(job.id, 2)
        with pytest.raises(JobNotFound):
            jobs.complete(job.id + 100)
        assert jobs.get(job.id).result == 1
        assert jobs.chain(job.id).length == 2

    def test_a_result_that_does_not_fit_the_annotation_is_refused(self, jobs: Rowcall) -> None:
        @jobs.task
        def number() -> int:
            return 0

        waiting, claimed = number.using(delay=3600).enqueue(), number.enqueue()
        chain = jobs.start_chain([number.using(delay=3600).bind(), number.bind()])
        [owned] = jobs.claim("hand")
        for call in (
            lambda: jobs.complete(waiting.id, "7"),
            lambda: jobs.complete(owned, "7"),
            lambda: jobs.complete_chain(chain, "7"),
            lambda: asyncio.run(jobs.acomplete(waiting.id, "7")),
        ):
            with pytest.raises(InvalidArguments, match="number: the result is a value that does not fit") as refused:
                call()
            assert refused.value.error_code == "INVALID_OUTPUT:WRONG_TYPE"
        with jobs.transaction() as transaction:
            for call in (
                lambda: jobs.complete(waiting.id, "7", connection=transaction),
                lambda: jobs.complete(owned, "7", connection=transaction),
                lambda: jobs.complete_chain(chain, "7", connection=transaction),
            ):
                with pytest.raises(InvalidArguments, match="does not fit"):
                    call()
            jobs.complete(waiting.id, 7, connection=transaction)  # the transaction continues
        jobs.complete(owned, None)
        assert [jobs.get(job).result for job in (waiting, claimed)] == [7, None]
        assert [step.status for step in jobs.chain(chain).steps] == ["scheduled", "blocked"]
        assert jobs.complete_chain(chain, 8).result == 8

    def test_a_next_step_that_cannot_be_written_is_refused(self, jobs: Rowcall) -> None:
        @jobs.task
        def step() -> None: ...

        job = step.enqueue()
        for then, said in ((step.using(after=[job.id + 1000]).bind(), "no such job"), (step, "^then must be a task")):
            with pytest.raises(InvalidOption, match=said):
                jobs.complete(job.id, then=then)  # type: ignore[arg-type]
        (claimed,) = jobs.claim("hand")
        with pytest.raises(InvalidOption, match=r"no such job .* it was deleted"):
            jobs.complete(claimed, then=step.using(after=[job.id + 1000]).bind())
        assert jobs.get(job).status == "running"

    def test_a_step_that_exists_is_not_named_again(self, jobs: Rowcall) -> None:
        @jobs.task
        def step() -> None: ...

        later = step.using(delay=3600)
        chain = jobs.start_chain([later.bind(), later.bind()])
        with pytest.raises(StepTaken, match="already has a step 1"):
            jobs.complete(chain.id, then=step.bind())
        assert jobs.chain(chain).status == "scheduled"
        jobs.complete(chain.id, "first")
        jobs.complete(chain.steps[1].id, "last", then=step.bind())
        assert [job.status for job in jobs.chain(chain).steps] == ["succeeded", "succeeded", "pending"]


def _claimed(jobs: Rowcall, *, lease: float = 300, max_attempts: int = 5, retry: Backoff | None = None) -> Job:
    if retry is None:
        jobs.enqueue("send", max_attempts=max_attempts)
    else:
        jobs.enqueue("send", max_attempts=max_attempts, retry=retry)
    job = jobs.dequeue("hand", lease=lease)
    assert job is not None
    return job
