"""Chains: each step continues from the one before."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from rowcall import (
    Cancel,
    Chain,
    Context,
    DuplicateJob,
    Fail,
    InvalidOption,
    JobFailed,
    JobNotFound,
    Retry,
    Rowcall,
    Status,
    WrongState,
)
from rowcall.task import ContextTask
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.fixtures import OpenQueue
from tests.conformance.store import Store, refuses


def adding(jobs: Rowcall) -> ContextTask[[int], int]:
    """A task that adds to the result of the previous step."""

    @jobs.task(max_attempts=1)
    def add(ctx: Context, number: int) -> int:
        before = ctx.previous or 0
        assert isinstance(before, int)
        return before + number

    return add


def two_steps(jobs: Rowcall) -> Chain:
    add = adding(jobs)
    return jobs.start_chain([add.bind(1), add.bind(2)])


def statuses(chain: Chain) -> list[str]:
    return [str(step.status) for step in chain.steps]


def places(chain: Chain) -> list[tuple[int | None, int | None]]:
    return [(step.chain_id, step.chain_index) for step in chain.steps]


class TestFixedChains:
    def test_a_key_starts_one_chain(self, jobs: Rowcall) -> None:
        @jobs.task
        def step() -> None: ...

        steps = [step.bind(), step.bind()]
        chain = jobs.start_chain(steps, key="hook-7")
        again = jobs.start_chain(steps, key="hook-7")
        assert (again.id, again.duplicate, chain.duplicate, len(again.steps)) == (chain.id, True, False, 2)
        jobs.drain()
        done = jobs.start_chain(steps, key="hook-7")  # also when its first step, or all of it, has ended
        assert (done.id, done.status) == (chain.id, "succeeded")
        with pytest.raises(DuplicateJob):
            jobs.start_chain(steps, key="hook-7", on_duplicate="raise")
        with jobs.transaction():
            inside = jobs.start_chain(steps, key="hook-8")
            assert jobs.start_chain(steps, key="hook-8").id == inside.id
        assert len(jobs.list_chains().chains) == 2
        alone = step.using(key="hook-9").enqueue()
        with pytest.raises(DuplicateJob, match=f"job {alone.id} already has the key 'hook-9'"):
            jobs.start_chain(steps, key="hook-9")
        assert len(jobs.list_chains().chains) == 2

    def test_a_key_writes_one_flow(self, jobs: Rowcall) -> None:
        @jobs.task
        def step() -> None: ...

        made = []
        for _ in range(2):
            flow = jobs.flow(key="order-7")
            first = flow.add(step.bind())
            flow.add(step.bind(), after=first)
            made.append(flow.enqueue())
        (first_job, _), (again,) = made
        assert (again.id, again.duplicate) == (first_job.id, True)
        assert len(jobs.list().jobs) == 2

    @pytest.mark.parametrize(
        "given",
        [
            {"key": ""},
            {"key": len},
            {"key_window": 5},
            {"key": "a", "on_duplicate": "replace"},
            {"on_duplicate": "raise"},
        ],
        ids=str,
    )
    def test_a_key_that_is_refused(self, jobs: Rowcall, given: dict[str, Any]) -> None:
        @jobs.task
        def step() -> None: ...

        with pytest.raises(InvalidOption):
            jobs.start_chain([step.bind()], **given)
        with pytest.raises(InvalidOption):
            jobs.flow(**given)
        assert jobs.list().jobs == []

    def test_each_step_starts_when_the_one_before_has_succeeded_and_reads_its_result(self, jobs: Rowcall) -> None:
        add = adding(jobs)
        chain = jobs.start_chain([add.bind(1), add.bind(10), add.bind(100)])
        assert (chain.status, chain.length, chain.current, chain.type) == (Status.PENDING, 3, chain.id, "add")
        assert places(chain) == [(chain.id, 0), (chain.id, 1), (chain.id, 2)]
        assert statuses(chain) == ["pending", "blocked", "blocked"]
        assert jobs.chain(chain.id) == chain
        (first,) = jobs.claim("hand", limit=10)
        jobs.complete(first, 1)
        again = jobs.chain(chain.id)
        assert (statuses(again), again.current) == (["succeeded", "pending", "blocked"], chain.steps[1].id)
        assert (again.status, again.result, again.finished_at) == (Status.PENDING, None, None)
        assert jobs.drain().succeeded == 2
        done = jobs.chain(chain.id)
        assert (done.status, done.result, done.current) == (Status.SUCCEEDED, 111, chain.steps[2].id)
        assert done.finished_at == done.steps[2].finished_at
        assert [step.result for step in done.steps] == [1, 11, 111]

    def test_an_async_step_reads_without_holding_up_its_loop(self, jobs: Rowcall) -> None:
        @jobs.task
        async def say(ctx: Context) -> list[object]:
            return [await ctx.aprevious(), await ctx.ablockers()]

        chain = jobs.start_chain([say.bind(), say.bind()])
        jobs.drain()
        assert [step.result for step in jobs.chain(chain.id).steps] == [[None, []], [[None, []], [[None, []]]]]

    def test_one_step_is_a_chain_and_none_is_not(self, jobs: Rowcall) -> None:
        add = adding(jobs)
        chain = jobs.start_chain([add.bind(5)])
        jobs.drain()
        assert (jobs.chain(chain.id).result, jobs.chain(chain.id).length) == (5, 1)
        with pytest.raises(InvalidOption, match="at least one step"):
            jobs.start_chain([])

    def test_a_step_is_tried_again_before_the_chain_continues(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def flaky(ctx: Context) -> int:
            if ctx.job.attempt < 3:
                raise Retry(delay=10)
            return ctx.job.attempt

        chain = jobs.start_chain([flaky.bind(), adding(jobs).bind(1)])
        for _ in range(2):
            jobs.drain()
            assert jobs.chain(chain.id).status is Status.SCHEDULED
            clock.advance(10)
        jobs.drain()
        assert jobs.chain(chain.id).result == 4

    def test_a_step_keeps_its_own_options(self, jobs: Rowcall, clock: FakeClock) -> None:
        add = adding(jobs)
        chain = jobs.start_chain([add.bind(1), add.using(queue="other", priority=5, delay=60, tags=["red"]).bind(2)])
        second = chain.steps[1]
        assert (second.queue, second.priority, second.tags) == ("other", 5, ("red",))
        jobs.drain()
        assert jobs.get(second.id).status is Status.SCHEDULED
        clock.advance(60)
        jobs.drain()
        assert jobs.chain(chain.id).result == 3

    def test_a_step_that_fails_ends_the_rest(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def give_up() -> None:
            raise Fail("PAYMENT:DECLINED", "no money")

        add = adding(jobs)
        chain = jobs.start_chain([add.bind(1), give_up.bind(), add.bind(2), add.bind(3)])
        jobs.drain()
        done = jobs.chain(chain.id)
        assert statuses(done) == ["succeeded", "failed", "failed", "failed"]
        assert [step.error_code for step in done.steps[1:]] == ["PAYMENT:DECLINED", "BLOCKER:FAILED", "BLOCKER:FAILED"]
        assert done.steps[2].error_detail == f"job {done.steps[1].id} failed with PAYMENT:DECLINED"
        assert (done.status, done.current, done.result) == (Status.FAILED, done.steps[1].id, None)
        assert done.finished_at == clock.now()
        assert jobs.stats().by_status["failed"] == 3

    def test_a_step_that_is_cancelled_takes_along_the_rest(self, jobs: Rowcall) -> None:
        @jobs.task
        def stop() -> None:
            raise Cancel("no longer needed")

        chain = jobs.start_chain([stop.bind(), adding(jobs).bind(1)])
        jobs.drain()
        done = jobs.chain(chain.id)
        assert statuses(done) == ["cancelled", "cancelled"]
        assert done.steps[1].error_code == "BLOCKER:CANCELLED"
        assert done.status is Status.CANCELLED

    def test_a_step_that_runs_in_any_case_reads_nothing_of_one_that_failed(self, jobs: Rowcall) -> None:
        @jobs.task
        def give_up() -> int:
            raise Fail("A:B")

        chain = jobs.start_chain([give_up.bind(), adding(jobs).using(on_blocker_failure="run").bind(7)])
        jobs.drain()
        done = jobs.chain(chain.id)
        assert (statuses(done), done.status, done.result) == (["failed", "succeeded"], Status.SUCCEEDED, 7)

    @pytest.mark.parametrize(("policy", "status"), [("fail", "failed"), ("run", "pending"), ("wait", "blocked")])
    def test_a_chain_has_one_status_wherever_it_is_shown(
        self, jobs: Rowcall, policy: Literal["fail", "run", "wait"], status: str
    ) -> None:
        @jobs.task(max_attempts=1)
        def step() -> None: ...

        chain = jobs.start_chain([step.bind(), step.bind(), step.using(on_blocker_failure=policy).bind()])
        job = jobs.enqueue("waits", after=chain)

        def shown() -> Status:
            (listed,) = jobs.list_chains().chains
            (blocker,) = jobs.blockers(job.id)
            assert jobs.chain(chain.id).status is listed.status is blocker.status
            return listed.status

        assert shown() is Status.PENDING
        (first,) = jobs.claim("hand")
        assert shown() is Status.RUNNING
        jobs.complete(first)
        assert shown() is Status.PENDING
        (second,) = jobs.claim("hand")
        jobs.fail(second, "A:B")
        assert shown() is Status.FAILED
        assert jobs.chain(chain.id).steps[-1].status == status


class TestChainRows:
    def test_an_index_is_there_once(self, jobs: Rowcall, store: Store) -> None:
        chain = two_steps(jobs)
        taken = f"insert into rowcall_job (type, chain_id, chain_index) values ('x', {chain.id}, 1)"
        assert refuses(store, taken)
        store.execute(f"insert into rowcall_job (type, chain_id, chain_index) values ('x', {chain.id}, 2)")
        assert jobs.chain(chain.id).length == 3

    def test_what_is_no_chain_is_not_found(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        alone = jobs.enqueue("alone")
        for job_id in (alone.id, chain.steps[1].id, 12345):
            with pytest.raises(JobNotFound):
                jobs.chain(job_id)
            with pytest.raises(JobNotFound):
                jobs.delete_chain(job_id)
            with pytest.raises(JobNotFound):
                jobs.complete_chain(job_id)


class TestCompletedByHand:
    @pytest.mark.parametrize("at", [0, 1, 2])
    def test_the_last_step_has_the_result_and_the_rest_is_skipped(self, jobs: Rowcall, at: int) -> None:
        add = adding(jobs)
        chain = jobs.start_chain([add.bind(1), add.bind(2), add.bind(3)])
        waiting = jobs.enqueue("other", after=chain)
        for _ in range(at):
            jobs.complete(jobs.claim("hand")[0], 0)
        done = jobs.complete_chain(chain.id, 7, actor="ann")
        assert done == jobs.chain(chain.id)
        assert (done.status, done.result) == (Status.SUCCEEDED, 7)
        assert statuses(done) == ["succeeded"] * at + ["cancelled"] * (2 - at) + ["succeeded"]
        assert {step.error_code for step in done.steps[at:2]} <= {"CHAIN:COMPLETED"}
        assert jobs.get(waiting.id).status is Status.PENDING
        told = [(event.event, event.actor) for event in jobs.timeline(done.steps[2].id)]
        assert ("COMPLETED", "ann") in told
        assert jobs.stats().by_status["succeeded"] == at + 1
        assert jobs.stats().by_status["blocked"] == 0
        with pytest.raises(WrongState):
            jobs.complete_chain(chain.id)

    def test_its_last_step_runs_at_once_when_it_is_retried(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        jobs.complete_chain(chain.id)
        assert jobs.retry(chain.steps[1].id).status is Status.PENDING
        assert jobs.drain().succeeded == 1
        assert [step.status for step in jobs.chain(chain.id).steps] == [Status.CANCELLED, Status.SUCCEEDED]

    def test_the_worker_of_a_running_step_is_no_longer_its_owner(self, jobs: Rowcall) -> None:
        @jobs.task
        def begin(ctx: Context) -> str:
            ctx.continue_with("next")
            jobs.complete_chain(ctx.job.chain_id or 0, "by hand")
            return "by the handler"

        chain = jobs.start_chain([begin.bind()])
        jobs.drain()
        done = jobs.chain(chain.id)
        assert (done.result, done.length, done.status) == ("by hand", 1, Status.SUCCEEDED)
        assert jobs.stats().by_status["succeeded"] == 1


class TestChainResults:
    def test_it_is_what_the_last_step_gave(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        with pytest.raises(TimeoutError):
            jobs.result(chain, timeout=0)
        jobs.drain()
        assert jobs.result(chain, timeout=0) == 3
        assert asyncio.run(jobs.aresult(jobs.chain(chain.id), timeout=0)) == 3
        assert jobs.result(chain.steps[0], timeout=0) == 1

    def test_it_is_waited_for_however_the_chain_grows(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        @jobs.task
        def count(ctx: Context, left: int) -> int:
            if left:
                ctx.continue_with(count, left=left - 1)
            return 10 - left

        chain = jobs.start_chain([count.bind(5)])
        with jobs.worker():
            assert jobs.result(chain, timeout=20) == 10

    def test_a_chain_that_fails_half_way_is_reported(self, open_queue: OpenQueue) -> None:
        jobs = open_queue()

        @jobs.task
        def give_up() -> None:
            raise Fail("A:B")

        chain = jobs.start_chain([give_up.bind(), adding(jobs).bind(1)])
        with jobs.worker(), pytest.raises(JobFailed) as raised:
            jobs.result(chain, timeout=20)
        assert raised.value.error_code == "BLOCKER:FAILED"

    def test_a_chain_that_is_gone_is_not_found(self, jobs: Rowcall) -> None:
        chain = two_steps(jobs)
        jobs.delete_chain(chain.id)
        with pytest.raises(JobNotFound):
            jobs.result(chain, timeout=0)
