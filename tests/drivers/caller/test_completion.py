"""A handler completes its job in its own transaction: its writes and the success are committed together, or neither."""

from __future__ import annotations

import contextlib

import pytest

from rowcall import Context, InvalidArguments, InvalidOption, Job, LeaseLost
from tests.drivers.caller.callers.base import Caller, Undo
from tests.drivers.caller.desk import Lending
from tests.drivers.caller.handling import codes_of, handled

ROLLED_BACK = "COMPLETION:ROLLED_BACK"


class Broken(Exception): ...


def seen_by_others(lending: Lending, ctx: Context) -> Job:
    return lending.jobs.get(ctx.job.id)


def test_committed_together(lending: Lending) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.complete(ctx, {"charged": "ä % $1 ?1"})
        assert seen_by_others(lending, ctx).status == "running"
        assert lending.notes == 0
        await mine.commit()
        assert seen_by_others(lending, ctx).status == "succeeded"

    job, summary = handled(lending, body)
    assert job.status == "succeeded"
    assert job.result == {"charged": "ä % $1 ?1"}
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.claimed_at is not None
    assert job.claimed_at <= job.started_at <= job.finished_at
    assert lending.notes == 1
    assert summary.succeeded == 1
    assert [attempt.status for attempt in lending.jobs.attempts(job.id)] == ["succeeded"]


def test_a_completion_is_counted_with_its_commit_and_once(lending: Lending) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.complete(ctx)
        assert lending.jobs.stats().by_queue[lending.queue]["succeeded"] == 0
        await mine.commit()
        assert lending.jobs.stats().by_queue[lending.queue]["succeeded"] == 1

    handled(lending, body)
    stats = lending.jobs.stats()
    assert stats.by_queue[lending.queue]["succeeded"] == 1
    pace = stats.pace_by_queue[lending.queue]
    assert (pace.arrived, pace.succeeded, pace.failed, pace.retried) == (1, 1, 0, 0)
    assert pace.run is not None


def test_a_completion_that_is_rolled_back_is_counted_as_what_it_was(lending: Lending) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.complete(ctx)
        await mine.rollback()

    handled(lending, body, max_attempts=2)
    stats = lending.jobs.stats()
    assert {status: count for status, count in stats.by_queue[lending.queue].items() if count} == {"failed": 1}
    pace = stats.pace_by_queue[lending.queue]
    assert (pace.succeeded, pace.failed, pace.retried) == (0, 1, 1)


def test_rolled_back_and_returned(lending: Lending) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.complete(ctx, "never")
        await mine.rollback()

    job, summary = handled(lending, body, max_attempts=2)
    assert job.status == "failed"
    assert job.error_code == ROLLED_BACK
    assert job.result is None
    assert codes_of(lending, job) == [ROLLED_BACK, ROLLED_BACK]
    assert (summary.retried, summary.failed, summary.succeeded) == (1, 1, 0)
    assert lending.notes == 0


def test_rolled_back_at_first_and_committed_then(main_lending: Lending) -> None:
    lending = main_lending

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.complete(ctx, ctx.job.attempt)
        await (mine.rollback() if ctx.job.attempt == 1 else mine.commit())

    job, summary = handled(lending, body, max_attempts=2)
    assert (job.status, job.result, job.attempt) == ("succeeded", 2, 2)
    assert codes_of(lending, job) == [ROLLED_BACK, None]
    assert (summary.retried, summary.succeeded) == (1, 1)
    assert lending.notes == 1


def test_committed_and_then_raised(main_lending: Lending) -> None:
    lending = main_lending

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.complete(ctx, "done")
        await mine.commit()
        raise Broken

    job, summary = handled(lending, body, max_attempts=3)
    assert (job.status, job.result, job.error_code, job.attempt) == ("succeeded", "done", None, 1)
    assert (summary.succeeded, summary.retried) == (1, 0)
    assert lending.notes == 1


def test_raised_before_the_commit(main_lending: Lending) -> None:
    lending = main_lending

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        await mine.complete(ctx, "never")
        await mine.rollback()
        raise Broken("why")

    job, summary = handled(lending, body)
    assert job.status == "failed"
    assert job.error_code is not None
    assert "Broken" in f"{job.error_code} {job.error_detail}"
    assert job.error_code != ROLLED_BACK
    assert summary.failed == 1
    assert lending.notes == 0


def test_a_lease_that_is_no_longer_ours(lending: Lending) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        lending.jobs.fail(ctx.job, "TAKEN:AWAY")
        await mine.begin()
        await mine.execute(lending.note)
        with pytest.raises(LeaseLost) as caught:
            await mine.complete(ctx, "never")
        assert caught.value.job_id == ctx.job.id
        assert await mine.execute("select 1") == [(1,)]
        await mine.rollback()
        raise caught.value

    job, summary = handled(lending, body)
    assert (job.status, job.error_code, job.result) == ("failed", "TAKEN:AWAY", None)
    assert codes_of(lending, job) == ["TAKEN:AWAY"]
    assert (summary.succeeded, summary.failed) == (0, 0)
    assert lending.notes == 0


def test_what_is_refused_leaves_the_transaction_as_it_was(lending: Lending) -> None:
    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        with pytest.raises(InvalidArguments, match="JSON"):
            await mine.complete(ctx, object())
        with pytest.raises(InvalidOption, match="connection: must be one of"):
            ctx.complete("never", connection=object())
        with pytest.raises(InvalidOption, match="connection: must be one of"):
            await ctx.acomplete("never", connection=object())
        assert await mine.execute("select 1") == [(1,)]
        assert seen_by_others(lending, ctx).status == "running"
        await mine.complete(ctx, "after all")
        await mine.commit()

    job, _ = handled(lending, body)
    assert (job.status, job.result) == ("succeeded", "after all")
    assert lending.notes == 1


def test_refused_and_returned_is_an_ordinary_success(main_lending: Lending) -> None:
    lending = main_lending

    async def body(ctx: Context, mine: Caller) -> None:
        with contextlib.suppress(InvalidArguments):
            await mine.complete(ctx, object())

    job, summary = handled(lending, body)
    assert (job.status, job.result) == ("succeeded", None)
    assert summary.succeeded == 1


def test_the_other_method_is_named(main_lending: Lending) -> None:
    lending = main_lending

    async def body(ctx: Context, mine: Caller) -> None:
        if mine.is_async:
            with pytest.raises(InvalidOption, match=r"is async: .*acomplete"):
                ctx.complete("never", connection=mine.lent)
        else:
            lending.jobs.lend(mine.lent)  # the first loan prepares, which would want a loop: this thread has none
            with pytest.raises(InvalidOption, match=r"is not async: .*complete"):
                await ctx.acomplete("never", connection=mine.lent)
        await mine.begin()
        await mine.complete(ctx, "done")
        await mine.commit()

    job, _ = handled(lending, body)
    assert (job.status, job.result) == ("succeeded", "done")


def test_completed_twice(main_lending: Lending) -> None:
    lending = main_lending

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.complete(ctx, "first")
        with pytest.raises(LeaseLost):
            await mine.complete(ctx, "second")
        assert await mine.execute("select 1") == [(1,)]
        await mine.commit()

    job, summary = handled(lending, body)
    assert (job.status, job.result) == ("succeeded", "first")
    assert summary.succeeded == 1


def test_in_a_savepoint_that_is_undone(main_lending: Lending) -> None:
    lending = main_lending

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.execute(lending.note)
        with contextlib.suppress(Undo):
            async with mine.savepoint():
                await mine.complete(ctx, "undone")
                raise Undo
        if ctx.job.attempt == 2:
            await mine.complete(ctx, "done")
        await mine.commit()

    job, _ = handled(lending, body, max_attempts=2)
    assert (job.status, job.result, job.attempt) == ("succeeded", "done", 2)
    assert codes_of(lending, job) == [ROLLED_BACK, None]
    assert lending.notes == 2


def test_together_with_an_enqueue(main_lending: Lending) -> None:
    lending = main_lending

    async def body(ctx: Context, mine: Caller) -> None:
        await mine.begin()
        await mine.enqueue(lending.desk.send.using(connection=mine.lent, queue=f"{lending.queue}-next"), "a")
        await mine.complete(ctx, ctx.job.attempt)
        await (mine.rollback() if ctx.job.attempt == 1 else mine.commit())

    job, _ = handled(lending, body, max_attempts=2)
    assert job.result == 2
    assert len(lending.jobs.list(queue=f"{lending.queue}-next").jobs) == 1
