"""Chains that grow: a handler says what comes after it, and that is written with its success."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from rowcall import Cancel, Context, Fail, Job, JobNotFound, Retry, Rowcall, Status
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.cases.chains import adding, places, statuses
from tests.conformance.store import Store


class TestGoingOn:
    def test_a_handler_fans_out_and_the_chain_waits_for_all(self, jobs: Rowcall) -> None:
        @jobs.task
        def part(number: int) -> int:
            return number * 10

        @jobs.task
        def split(ctx: Context) -> str:
            done, *parts = part.using(delay=60).enqueue(1), part.enqueue(2), part.enqueue(3)
            jobs.complete(done.id, 7)
            ctx.continue_with(join.using(after=[done, *parts]), "all")
            return "split"

        @jobs.task
        def join(ctx: Context, what: str) -> object:
            return [what, ctx.previous, ctx.blockers]

        job = split.enqueue()
        jobs.drain()
        chain = jobs.chain(job.id)
        assert (chain.status, chain.result) == ("succeeded", ["all", "split", [7, 20, 30]])
        assert [blocker.open for blocker in jobs.blockers(chain.steps[1])] == [False, False, False]

    @pytest.mark.parametrize("on_failure", ["fail", "run"])
    def test_a_part_that_fails_or_is_gone(self, jobs: Rowcall, on_failure: Literal["fail", "run"]) -> None:
        @jobs.task(max_attempts=1)
        def part() -> None:
            raise ValueError

        @jobs.task
        def join(ctx: Context) -> object:
            return ctx.blockers

        @jobs.task
        def split(ctx: Context) -> None:
            gone = part.using(delay=60).enqueue()
            parts = [part.enqueue(), gone]
            ctx.continue_with(join.using(after=parts, on_blocker_failure=on_failure))
            jobs.delete(gone)

        job = split.enqueue()
        jobs.drain()
        chain = jobs.chain(job.id)
        if on_failure == "run":
            assert (chain.status, chain.result) == ("succeeded", [None, None])
        else:
            assert (chain.status, chain.error_code) == ("failed", "BLOCKER:FAILED")

    def test_a_part_that_never_existed_has_failed(self, jobs: Rowcall) -> None:
        @jobs.task
        def join() -> None: ...

        @jobs.task
        def split(ctx: Context) -> None:
            ctx.continue_with(join.using(after=[ctx.job.id + 1000]))

        job = split.enqueue()
        jobs.drain()
        first, second = jobs.chain(job.id).steps
        assert (first.status, second.status, second.error_code) == ("succeeded", "failed", "BLOCKER:FAILED")

    def test_the_next_step_is_written_with_the_success_of_the_one_before(self, jobs: Rowcall) -> None:
        @jobs.task
        def count(ctx: Context, left: int) -> int:
            before = ctx.previous or 0
            assert isinstance(before, int)
            if left:
                ctx.continue_with(count, left=left - 1)
            return before + 1

        first = count.enqueue(3)
        assert (first.chain_id, first.chain_index) == (None, None)
        assert jobs.drain().succeeded == 4
        chain = jobs.chain(first.id)
        assert (chain.result, chain.length, chain.status) == (4, 4, Status.SUCCEEDED)
        assert places(chain) == [(first.id, index) for index in range(4)]
        assert [step.result for step in chain.steps] == [1, 2, 3, 4]

    def test_async_handlers_continue_and_read_as_well(self, jobs: Rowcall) -> None:
        @jobs.task
        async def begin(ctx: Context) -> str:
            ctx.continue_with("finish", word="b")
            return "a"

        @jobs.task
        async def finish(ctx: Context, word: str) -> str:
            return f"{ctx.previous}{word}"

        async def scenario() -> object:
            first = await begin.aenqueue()
            await jobs.adrain()
            return (await jobs.achain(first.id)).result

        assert asyncio.run(scenario()) == "ab"

    def test_options_and_positional_arguments_go_along(self, jobs: Rowcall, clock: FakeClock) -> None:
        add = adding(jobs)

        @jobs.task
        def begin(ctx: Context) -> int:
            ctx.continue_with(add.using(delay=60, queue="later", priority=3), 5)
            return 1

        first = begin.enqueue()
        jobs.drain()
        step = jobs.chain(first.id).steps[1]
        assert (step.status, step.queue, step.priority) == (Status.SCHEDULED, "later", 3)
        clock.advance(60)
        jobs.drain()
        assert jobs.chain(first.id).result == 6

    @pytest.mark.parametrize("end", [Fail("A:B"), Retry(delay=5), Cancel("why"), ValueError("no")])
    def test_without_success_nothing_continues(self, jobs: Rowcall, store: Store, end: Exception) -> None:
        @jobs.task(max_attempts=2)
        def begin(ctx: Context) -> None:
            ctx.continue_with("next")
            raise end

        first = begin.enqueue()
        jobs.drain()
        assert store.execute("select count(*) from rowcall_job") == [(1,)]
        with pytest.raises(JobNotFound):
            jobs.chain(first.id)

    def test_a_result_that_cannot_be_kept_goes_nowhere(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task
        def begin(ctx: Context) -> object:
            ctx.continue_with("next")
            return object()

        begin.enqueue()
        assert jobs.drain().failed == 1
        assert store.execute("select count(*) from rowcall_job") == [(1,)]

    def test_only_the_attempt_that_succeeds_continues(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def begin(ctx: Context) -> None:
            ctx.continue_with("next", number=ctx.job.attempt)
            if ctx.job.attempt == 1:
                raise Retry(delay=5)

        first = begin.enqueue()
        jobs.drain()
        clock.advance(5)
        jobs.drain()
        chain = jobs.chain(first.id)
        assert [step.payload for step in chain.steps] == [{}, {"number": 2}]

    def test_an_attempt_that_was_lost_does_not_continue(self, jobs: Rowcall, store: Store) -> None:
        @jobs.task
        def begin(ctx: Context) -> None:
            ctx.continue_with("next")
            store.execute("update rowcall_claim set lease = lease + 2")  # as if another had claimed it since

        first = begin.enqueue()
        assert jobs.drain().succeeded == 0
        assert store.execute("select id from rowcall_job") == [(first.id,)]

    def test_a_fixed_chain_has_its_next_step_already(self, jobs: Rowcall) -> None:
        @jobs.task
        def begin(ctx: Context) -> None:
            ctx.continue_with("elsewhere")

        chain = jobs.start_chain([begin.bind(), adding(jobs).bind(1)])
        jobs.drain()
        done = jobs.chain(chain.id)
        assert done.steps[0].error_code == "CHAIN:STEP_TAKEN"
        assert statuses(done) == ["failed", "failed"]

    def test_the_last_step_of_a_fixed_chain_may_continue(self, jobs: Rowcall) -> None:
        add = adding(jobs)

        @jobs.task
        def more(ctx: Context) -> int:
            ctx.continue_with(add, 100)
            assert isinstance(ctx.previous, int)
            return ctx.previous + 10

        chain = jobs.start_chain([add.bind(1), more.bind()])
        jobs.drain()
        done = jobs.chain(chain.id)
        assert (done.result, done.length) == (111, 3)
        assert places(done) == [(chain.id, 0), (chain.id, 1), (chain.id, 2)]

    def test_many_continue_at_once(self, jobs: Rowcall) -> None:
        @jobs.task
        def begin(ctx: Context, number: int) -> int:
            ctx.continue_with(double)
            return number

        @jobs.task
        def double(ctx: Context) -> int:
            assert isinstance(ctx.previous, int)
            return ctx.previous * 2

        first = begin.enqueue_many([{"number": number} for number in range(50)])
        assert jobs.drain().succeeded == 100
        assert [jobs.chain(job.id).result for job in first] == [2 * number for number in range(50)]

    def test_what_is_completed_by_hand_has_nothing_after_it(self, jobs: Rowcall) -> None:
        job: Job = jobs.enqueue("begin")
        jobs.complete(jobs.claim("hand")[0], 1)
        with pytest.raises(JobNotFound):
            jobs.chain(job.id)
