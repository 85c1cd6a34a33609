"""A handler completes its job in its own transaction: its writes and the success are committed together, or neither."""

from __future__ import annotations

import contextlib

import pytest

from rowcall import Context, InvalidArguments, InvalidOption, Job, LeaseLost
from rowcall.app import queue_of
from rowcall.operations.effects import open_target
from tests.drivers.caller.callers.base import Caller, Undo
from tests.drivers.caller.handlers import codes_of, handled
from tests.drivers.caller.queue_site import Case

ROLLED_BACK = "COMPLETION:ROLLED_BACK"


class Broken(Exception): ...


def seen_by_others(case: Case, ctx: Context) -> Job:
    return case.jobs.get(ctx.job.id)


def test_committed_together(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.complete(ctx, {"charged": "ä % $1 ?1"})
        assert seen_by_others(case, ctx).status == "running"
        assert case.notes == 0
        await mine.commit()
        assert seen_by_others(case, ctx).status == "succeeded"

    job, summary = handled(case, body)
    assert job.status == "succeeded"
    assert job.result == {"charged": "ä % $1 ?1"}
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.claimed_at is not None
    assert job.claimed_at <= job.started_at <= job.finished_at
    assert case.notes == 1
    assert summary.succeeded == 1
    assert [attempt.status for attempt in case.jobs.attempts(job.id)] == ["succeeded"]


def test_a_completion_is_counted_with_its_commit_and_once(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.complete(ctx)
        assert case.jobs.stats().by_queue[case.queue]["succeeded"] == 0
        await mine.commit()
        assert case.jobs.stats().by_queue[case.queue]["succeeded"] == 1

    handled(case, body)
    stats = case.jobs.stats()
    assert stats.by_queue[case.queue]["succeeded"] == 1
    pace = stats.pace_by_queue[case.queue]
    assert (pace.arrived, pace.succeeded, pace.failed, pace.retried) == (1, 1, 0, 0)
    assert pace.run is not None


def test_a_completion_that_is_rolled_back_is_counted_as_what_it_was(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.complete(ctx)
        await mine.rollback()

    handled(case, body, max_attempts=2)
    stats = case.jobs.stats()
    assert {status: count for status, count in stats.by_queue[case.queue].items() if count} == {"failed": 1}
    pace = stats.pace_by_queue[case.queue]
    assert (pace.succeeded, pace.failed, pace.retried) == (0, 1, 1)


def test_rolled_back_and_returned(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.complete(ctx, "never")
        await mine.rollback()

    job, summary = handled(case, body, max_attempts=2)
    assert job.status == "failed"
    assert job.error_code == ROLLED_BACK
    assert job.result is None
    assert codes_of(case, job) == [ROLLED_BACK, ROLLED_BACK]
    assert (summary.retried, summary.failed, summary.succeeded) == (1, 1, 0)
    assert case.notes == 0


def test_rolled_back_at_first_and_committed_then(main_case: Case) -> None:
    case = main_case

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.complete(ctx, ctx.job.attempt)
        await (mine.rollback() if ctx.job.attempt == 1 else mine.commit())

    job, summary = handled(case, body, max_attempts=2)
    assert (job.status, job.result, job.attempt) == ("succeeded", 2, 2)
    assert codes_of(case, job) == [ROLLED_BACK, None]
    assert (summary.retried, summary.succeeded) == (1, 1)
    assert case.notes == 1


def test_committed_and_then_raised(main_case: Case) -> None:
    case = main_case

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.complete(ctx, "done")
        await mine.commit()
        raise Broken

    job, summary = handled(case, body, max_attempts=3)
    assert (job.status, job.result, job.error_code, job.attempt) == ("succeeded", "done", None, 1)
    assert (summary.succeeded, summary.retried) == (1, 0)
    assert case.notes == 1


def test_raised_before_the_commit(main_case: Case) -> None:
    case = main_case

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        await mine.complete(ctx, "never")
        await mine.rollback()
        raise Broken("why")

    job, summary = handled(case, body)
    assert job.status == "failed"
    assert job.error_code is not None
    assert "Broken" in f"{job.error_code} {job.error_detail}"
    assert job.error_code != ROLLED_BACK
    assert summary.failed == 1
    assert case.notes == 0


def test_a_lease_that_is_no_longer_ours(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        case.jobs.fail(ctx.job, "TAKEN:AWAY")
        await mine.begin()
        await mine.execute(case.note)
        with pytest.raises(LeaseLost) as caught:
            await mine.complete(ctx, "never")
        assert caught.value.job_id == ctx.job.id
        assert await mine.execute("select 1") == [(1,)]
        await mine.rollback()
        raise caught.value

    job, summary = handled(case, body)
    assert (job.status, job.error_code, job.result) == ("failed", "TAKEN:AWAY", None)
    assert codes_of(case, job) == ["TAKEN:AWAY"]
    assert (summary.succeeded, summary.failed) == (0, 0)
    assert case.notes == 0


def test_what_is_refused_leaves_the_transaction_as_it_was(case: Case) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        with pytest.raises(InvalidArguments, match="JSON"):
            await mine.complete(ctx, object())
        with pytest.raises(InvalidOption, match="connection must be one of"):
            ctx.complete("never", connection=object())
        with pytest.raises(InvalidOption, match="connection must be one of"):
            await ctx.acomplete("never", connection=object())
        assert await mine.execute("select 1") == [(1,)]
        assert seen_by_others(case, ctx).status == "running"
        await mine.complete(ctx, "after all")
        await mine.commit()

    job, _ = handled(case, body)
    assert (job.status, job.result) == ("succeeded", "after all")
    assert case.notes == 1


def test_refused_and_returned_is_an_ordinary_success(main_case: Case) -> None:
    case = main_case

    async def body(ctx: Context, mine: Caller) -> None:
        with contextlib.suppress(InvalidArguments):
            await mine.complete(ctx, object())

    job, summary = handled(case, body)
    assert (job.status, job.result) == ("succeeded", None)
    assert summary.succeeded == 1


def test_the_other_method_is_named(main_case: Case) -> None:
    case = main_case

    async def body(ctx: Context, mine: Caller) -> None:
        if mine.is_async:
            with pytest.raises(InvalidOption, match=r"is async: .*acomplete"):
                ctx.complete("never", connection=mine.connection)
        else:
            # the first use prepares, which needs an event loop: this thread has none
            queue_of(case.jobs).run(open_target(queue_of(case.jobs), mine.connection))
            with pytest.raises(InvalidOption, match=r"is not async: .*complete"):
                await ctx.acomplete("never", connection=mine.connection)
        await mine.begin()
        await mine.complete(ctx, "done")
        await mine.commit()

    job, _ = handled(case, body)
    assert (job.status, job.result) == ("succeeded", "done")


def test_completed_twice(main_case: Case) -> None:
    case = main_case

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.complete(ctx, "first")
        with pytest.raises(LeaseLost):
            await mine.complete(ctx, "second")
        assert await mine.execute("select 1") == [(1,)]
        await mine.commit()

    job, summary = handled(case, body)
    assert (job.status, job.result) == ("succeeded", "first")
    assert summary.succeeded == 1


def test_in_a_savepoint_that_is_undone(main_case: Case) -> None:
    case = main_case

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(case.note)
        with contextlib.suppress(Undo):
            async with mine.savepoint():
                await mine.complete(ctx, "undone")
                raise Undo
        if ctx.job.attempt == 2:
            await mine.complete(ctx, "done")
        await mine.commit()

    job, _ = handled(case, body, max_attempts=2)
    assert (job.status, job.result, job.attempt) == ("succeeded", "done", 2)
    assert codes_of(case, job) == [ROLLED_BACK, None]
    assert case.notes == 2


def test_together_with_an_enqueue(main_case: Case) -> None:
    case = main_case

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.enqueue(case.site.send.using(connection=mine.connection, queue=f"{case.queue}-next"), "a")
        await mine.complete(ctx, ctx.job.attempt)
        await (mine.rollback() if ctx.job.attempt == 1 else mine.commit())

    job, _ = handled(case, body, max_attempts=2)
    assert job.result == 2
    assert len(case.jobs.list(queue=f"{case.queue}-next").jobs) == 1
