"""Child jobs: `ctx.call` enqueues once, keeps no slot while it waits, and has the child's result or error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest

from rowcall import (
    Cancel,
    Context,
    DuplicateJob,
    Encryption,
    Fail,
    InvalidArguments,
    InvalidOption,
    JobCancelled,
    JobFailed,
    Limit,
    Rowcall,
    StillNeeded,
    UnknownTask,
    WrongState,
)
from rowcall.testing.fake_clock import FakeClock
from tests.conformance.store import Store


@dataclass
class Receipt:
    order_id: int
    paid: bool


class TestCalls:
    def test_a_handler_has_the_result_of_its_child(self, jobs: Rowcall) -> None:
        attempts: list[str] = []

        @jobs.task
        async def charge(order_id: int, *, paid: bool) -> Receipt:
            return Receipt(order_id, paid)

        @jobs.task
        async def order(ctx: Context, order_id: int) -> bool:
            attempts.append("async")
            receipt = await ctx.call(charge, order_id, paid=True)
            return receipt == Receipt(order_id, True)

        @jobs.task
        def order_in_a_thread(ctx: Context, order_id: int) -> bool:
            attempts.append("sync")
            receipt: Receipt = ctx.call("charge", order_id=order_id, paid=False)
            return receipt == Receipt(order_id, False)

        parents = [order.enqueue(7), order_in_a_thread.enqueue(8)]
        assert jobs.drain(concurrency=1).succeeded == 4  # in the one slot
        assert [jobs.get(parent).result for parent in parents] == [True, True]
        assert [jobs.get(parent).attempt for parent in parents] == [1, 1]
        assert sorted(attempts) == ["async"] * 2 + ["sync"] * 2
        (step,) = jobs.steps(parents[0])
        assert (step.kind, step.name, step.status) == ("call", "charge", "finished")
        assert step.result == {"order_id": 7, "paid": True}
        assert step.child_id is not None
        assert jobs.get(step.child_id).parent_id == parents[0].id

    def test_a_handler_may_catch_the_error_of_its_child(self, jobs: Rowcall) -> None:
        @jobs.task
        def fetch(how: str) -> None:
            raise Fail("HTTP:NOT_FOUND", "no such page") if how == "fail" else Cancel("no one needs it")

        @jobs.task
        async def read(ctx: Context) -> list[str]:
            errors = []
            for how in ("fail", "cancel"):
                try:
                    await ctx.call(fetch, how)
                except (JobFailed, JobCancelled) as error:
                    errors.append(str(error).partition(" ")[2].partition(" ")[2])
            return errors

        @jobs.task
        def read_on(ctx: Context, how: str) -> None:
            ctx.call(fetch, how)

        job, failed, cancelled = read.enqueue(), read_on.enqueue("fail"), read_on.enqueue("cancel")
        jobs.drain()
        assert jobs.get(job).result == [
            "failed with HTTP:NOT_FOUND: no such page",
            "was cancelled: no one needs it",
        ]
        assert (jobs.get(failed).status, jobs.get(failed).error_code) == ("failed", "CHILD:FAILED")
        assert "failed with HTTP:NOT_FOUND: no such page" in (jobs.get(failed).error_detail or "")
        assert (jobs.get(cancelled).error_code, jobs.get(cancelled).attempt) == ("CHILD:CANCELLED", 1)

    def test_a_child_in_the_slot_of_its_parent(self, jobs: Rowcall, clock: FakeClock) -> None:
        alone = Limit("alone", concurrency=1)

        @jobs.task(limit=alone)
        def depth(ctx: Context, left: int) -> int:
            return 1 + ctx.call(depth, left - 1) if left else 0

        job = depth.enqueue(3)
        jobs.drain()
        assert jobs.get(job).result == 3

    def test_results_that_are_encrypted_and_stored_elsewhere(self, store: Store, clock: FakeClock) -> None:
        with Rowcall(store.url, clock=clock, encrypt=Encryption(keys=["k" * 43]), blob_threshold=1024) as jobs:

            @jobs.task
            def repeat(text: str, times: int) -> str:
                if not times:
                    raise Fail("NO:TIMES", text)
                return text * times

            @jobs.task
            async def parent(ctx: Context, times: int) -> int:
                return len(await ctx.call(repeat, "secret", times))

            parents = [parent.enqueue(times) for times in (1, 1000, 0)]
            jobs.drain()
            assert [jobs.get(one).result for one in parents] == [6, 6000, None]
            assert "NO:TIMES: secret" in (jobs.get(parents[2]).error_detail or "")
            (large,) = jobs.steps(parents[1])
            assert (large.result, jobs.steps(parents[2])[0].error_detail) == ("secret" * 1000, "secret")
            assert large.child_id is not None
            jobs.delete(large.child_id)
            jobs.prune()
            assert jobs.steps(parents[1])[0].result == "secret" * 1000
        keys = Encryption(keys=["n" * 43, "k" * 43], require=True)
        with Rowcall(store.url, clock=clock, encrypt=keys, blob_threshold=1024) as jobs:
            assert jobs.rekey().unreadable == 0
        with Rowcall(store.url, clock=clock, encrypt=Encryption(keys=["n" * 43]), blob_threshold=1024) as jobs:
            results = [jobs.steps(one)[0].result for one in parents]
            assert results == ["secret", "secret" * 1000, None]
            assert jobs.steps(parents[2])[0].error_detail == "secret"

    def test_wrong_calls(self, jobs: Rowcall) -> None:
        errors: list[str] = []

        @jobs.task
        def fetch(url: str) -> None: ...

        @jobs.task
        def wrong(ctx: Context) -> None:
            with jobs.transaction() as transaction:
                pass
            for call in (
                lambda: ctx.call("unknown"),
                lambda: ctx.call(fetch, 1),  # type: ignore[call-overload]
                lambda: ctx.call(fetch.using(connection=transaction), "a"),
            ):
                try:
                    call()
                except (UnknownTask, InvalidArguments, ValueError) as error:
                    errors.append(str(error))

        job = wrong.enqueue()
        jobs.drain()
        assert jobs.get(job).status == "succeeded", jobs.get(job)
        assert errors[0].startswith("unknown task 'unknown'; declared here: ")
        assert "url" in errors[1]
        assert "connection" in errors[2]
        assert jobs.steps(job) == []

    def test_a_child_may_end_in_its_own_transaction(self, jobs: Rowcall) -> None:
        @jobs.task
        def charge(ctx: Context) -> None:
            with jobs.transaction() as connection:
                ctx.complete("paid", connection=connection)

        @jobs.task
        def order(ctx: Context) -> object:
            return ctx.call(charge)

        job = order.enqueue()
        jobs.drain()
        assert jobs.get(job).result == "paid"

    @pytest.mark.parametrize("is_async", [True, False])
    def test_a_worker_wakes_the_parent(self, jobs: Rowcall, is_async: bool) -> None:
        @jobs.task
        def double(number: int) -> int:
            return 2 * number

        @jobs.task(name="on_the_loop")
        async def on_the_loop(ctx: Context) -> int:
            return await ctx.call(double, await ctx.call(double, 5))

        @jobs.task(name="in_a_thread")
        def in_a_thread(ctx: Context) -> int:
            return ctx.call(double, ctx.call(double, 5))

        with jobs.worker():
            job = (on_the_loop if is_async else in_a_thread).enqueue()
            assert jobs.result(job, timeout=30) == 20


class TestGatheredCalls:
    def test_children_are_enqueued_together_and_wake_their_parent_once(self, jobs: Rowcall) -> None:
        begun: list[str] = []

        @jobs.task
        def square(number: int) -> int:
            return number * number

        @jobs.task
        async def on_the_loop(ctx: Context, count: int) -> int:
            begun.append("async")
            return sum(await ctx.gather(*(ctx.call(square, number) for number in range(count))))

        @jobs.task
        def in_a_thread(ctx: Context, count: int) -> int:
            begun.append("sync")
            results = ctx.gather(*(partial(ctx.call, square, number) for number in range(count)))
            assert ctx.step("after", len, results) == count
            return sum(results)

        parents = [on_the_loop.enqueue(40), in_a_thread.enqueue(40)]
        jobs.drain()
        assert [jobs.get(parent).result for parent in parents] == [sum(n * n for n in range(40))] * 2
        assert sorted(begun) == ["async"] * 2 + ["sync"] * 2
        for parent in parents:
            children = [jobs.get(step.child_id) for step in jobs.steps(parent) if step.child_id is not None]
            assert len({child.created_at for child in children}) == 1
            assert [child.id for child in children] == sorted(child.id for child in children)

    @pytest.mark.parametrize("kinds", [1, 2])
    def test_many_children_have_the_options_of_their_calls(self, jobs: Rowcall, clock: FakeClock, kinds: int) -> None:
        @jobs.task
        def square(number: int) -> int:
            return number * number

        asked = [
            square.using(priority=3, tags=["a", "b"], max_attempts=7, timeout=50, detach=True, delay=60),
            square.using(queue="other", expires_in=100),
        ]

        @jobs.task
        async def parent(ctx: Context) -> int:
            calls = (ctx.call(asked[number % kinds], number) for number in range(40))
            return sum(await ctx.gather(*calls))

        job = parent.enqueue()
        jobs.drain()
        children = [jobs.get(step.child_id or 0) for step in jobs.steps(job)]
        assert [child.payload for child in children] == [{"number": number} for number in range(40)]
        assert [child.id for child in children] == sorted(child.id for child in children)
        first, last = children[0], children[-1]
        assert (first.priority, first.tags, first.max_attempts, first.queue) == (3, ("a", "b"), 7, "default")
        assert (first.status, first.run_at) == ("scheduled", clock.now() + timedelta(seconds=60))
        assert {child.status for child in children[1::2]} == {"scheduled" if kinds == 1 else "succeeded"}
        assert (last.queue, last.expires_at is None) == (("default", True) if kinds == 1 else ("other", False))
        clock.advance(60)
        jobs.drain()
        assert jobs.get(job).result == sum(number * number for number in range(40))

    def test_all_end_before_the_error_of_one_is_raised(self, jobs: Rowcall, clock: FakeClock) -> None:
        begun: list[int] = []

        @jobs.task(max_attempts=1)
        def load(number: int) -> int:
            if number == 1:
                raise ValueError("one")
            return number

        @jobs.task
        async def slow(ctx: Context) -> int:
            await ctx.sleep(0.01)
            return 7

        @jobs.task
        async def parent(ctx: Context) -> str:
            begun.append(1)
            try:
                await ctx.gather(ctx.call(load, 1), ctx.call(slow), ctx.step("mine", asyncio.sleep, 0))
            except JobFailed as error:
                return f"{error.error_code} {await ctx.call(load, 2)}"
            return "no error"

        job = parent.enqueue()
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        assert jobs.get(job).result == "INTERNAL:ValueError 2"
        assert len(begun) == 3  # the first time, when both have ended, when the last has ended

    def test_a_timeout_waits_for_the_child_next_to_it(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(max_attempts=1)
        def load(ctx: Context) -> None:
            ctx.sleep(5)
            raise ValueError("one")

        @jobs.task
        async def parent(ctx: Context) -> str:
            try:
                await ctx.gather(ctx.call(load), ctx.wait_for("paid", timeout=1))
            except TimeoutError:
                await ctx.step("remind", asyncio.sleep, 0)
                return "reminded"
            except JobFailed:
                await ctx.step("end", asyncio.sleep, 0)
                await ctx.sleep(1)
                return "no more tries"
            return "paid"

        job = parent.enqueue()
        for seconds in (0, 2, 5, 2):
            clock.advance(seconds)
            jobs.drain()
        assert (jobs.get(job).status, jobs.get(job).result) == ("succeeded", "no more tries")

    @pytest.mark.parametrize("is_async", [True, False])
    def test_a_key_that_is_taken_may_be_caught(self, jobs: Rowcall, is_async: bool) -> None:
        @jobs.task
        def child(number: int) -> None: ...

        keyed = child.using(key="k")

        @jobs.task
        async def on_the_loop(ctx: Context) -> str:
            try:
                await ctx.gather(ctx.call(keyed, 1), ctx.call(keyed, 2))
            except DuplicateJob:
                return "taken"
            return "free"

        @jobs.task
        def in_a_thread(ctx: Context) -> str:
            try:
                ctx.gather(partial(ctx.call, keyed, 1), partial(ctx.call, keyed, 2))
            except DuplicateJob:
                return "taken"
            return "free"

        job = (on_the_loop if is_async else in_a_thread).enqueue()
        jobs.drain()
        assert jobs.get(job).result == "taken"

    @pytest.mark.parametrize("how", ["gather", "first", "sync gather"])
    def test_all_children_of_a_gather_are_enqueued_or_none(self, jobs: Rowcall, how: str) -> None:
        @jobs.task
        def child(number: int) -> int:
            return number

        keyed = child.using(key="k")

        @jobs.task
        async def on_the_loop(ctx: Context) -> object:
            try:
                together = ctx.gather if how == "gather" else ctx.first
                return await together(ctx.call(child, 1), ctx.call(keyed, 2))
            except DuplicateJob:
                return await ctx.call(child, 3)

        @jobs.task
        def in_a_thread(ctx: Context) -> object:
            try:
                return ctx.gather(partial(ctx.call, child, 1), partial(ctx.call, keyed, 2))
            except DuplicateJob:
                return ctx.call(child, 3)

        task = in_a_thread if how == "sync gather" else on_the_loop
        holder = child.using(key="k", delay=60).enqueue(0)
        parents, other = [task.enqueue() for _ in range(2)], child.enqueue(4)
        jobs.drain()
        assert [jobs.get(job).result for job in (*parents, other)] == [3, 3, 4]
        assert [len(jobs.list(parent=job).jobs) for job in parents] == [1, 1]
        jobs.cancel(holder)

    def test_a_recorded_call_does_not_need_its_arguments(self, jobs: Rowcall) -> None:
        names = ["child"]

        @jobs.task(name="child")
        def child() -> str:
            return "done"

        @jobs.task
        def parent(ctx: Context) -> object:
            result = ctx.call("child", *names[1:])
            return [result, ctx.wait_for("resume")]

        job = parent.enqueue()
        jobs.drain()
        names.append("an argument that it does not take")
        jobs.signal(job, "resume", 1)
        jobs.drain()
        assert jobs.get(job).result == ["done", 1]

    @pytest.mark.parametrize("twice", ["gather", "first", "awaited"])
    def test_a_call_is_passed_once(self, jobs: Rowcall, twice: str) -> None:
        @jobs.task
        async def child() -> None: ...

        @jobs.task(max_attempts=1)
        async def parent(ctx: Context) -> None:
            call = ctx.call(child)
            if twice == "first":
                await ctx.first(call, call)
            if twice == "awaited":
                await call
            await ctx.gather(call, call)

        job = parent.enqueue()
        jobs.drain()
        assert "twice" in (jobs.get(job).error_detail or "")

    def test_a_callable_calls_one_step(self, jobs: Rowcall) -> None:
        @jobs.task
        def square(number: int) -> int:
            return number * number

        @jobs.task
        def two(ctx: Context) -> object:
            return ctx.gather(lambda: ctx.call(square, ctx.call(square, 2)))

        @jobs.task
        def changed(ctx: Context) -> object:
            return ctx.gather(lambda: ctx.call(square, 2) + 1 if ctx.patched("new") else 0, 5)

        refused, job = two.enqueue(), changed.enqueue()
        jobs.drain()
        assert (jobs.get(refused).error_code, jobs.get(job).result) == ("STEPS:NOT_ALLOWED", [5, 5])


class TestFirst:
    def test_a_signal_before_a_sleep(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        async def on_the_loop(ctx: Context) -> list[object]:
            first = await ctx.first(ctx.wait_for("paid"), ctx.sleep(60))
            return [*first, await ctx.wait_for("paid", timeout=5)]

        @jobs.task
        def in_a_thread(ctx: Context) -> list[object]:
            first = ctx.first(partial(ctx.wait_for, "paid"), partial(ctx.sleep, 60))
            return [*first, ctx.wait_for("paid", timeout=5)]

        for task in (on_the_loop, in_a_thread):
            job = task.enqueue()
            jobs.drain()
            assert (jobs.get(job).status, jobs.get(job).run_at) == ("scheduled", clock.now() + timedelta(seconds=60))
            jobs.signal(job, "paid", 7)
            jobs.signal(job, "paid", 8)
            jobs.drain()
            assert jobs.get(job).result == [0, 7, 8]
            assert [(step.kind, step.status) for step in jobs.steps(job)] == [
                ("wait", "finished"),
                ("sleep", "abandoned"),
                ("first", "finished"),
                ("wait", "finished"),
            ]
            with pytest.raises(InvalidOption, match=r"it has 'paid'$"):  # others have no name
                jobs.retry(job, from_step="")

    @pytest.mark.parametrize("sent", [True, False])
    def test_a_callable_makes_something_of_its_value(self, jobs: Rowcall, clock: FakeClock, sent: bool) -> None:
        @jobs.task
        def parent(ctx: Context) -> object:
            def paid() -> object:
                return {"new": ctx.patched("new"), "by": ctx.wait_for("paid")}

            index, value = ctx.first(paid, lambda: [ctx.sleep(60), "late"][1])
            return [index, value, ctx.step("after", str, "it")]

        job = parent.enqueue()
        jobs.drain()
        if sent:
            jobs.signal(job, "paid", "ann")
        clock.advance(60)
        jobs.drain()
        assert jobs.get(job).result == ([0, {"by": "ann", "new": True}, "it"] if sent else [1, "late", "it"])

    def test_a_retry_waits_again_for_all_of_them(self, jobs: Rowcall) -> None:
        works: list[int] = []

        @jobs.task(max_attempts=1)
        def load() -> str:
            if not works:
                raise ValueError("no route")
            return "loaded"

        @jobs.task
        def parent(ctx: Context) -> tuple[int, object]:
            waits = (partial(ctx.wait_for, "a"), partial(ctx.wait_for, "b"))
            return ctx.first(partial(ctx.sleep, 60), partial(ctx.call, load.using(delay=30 * len(works))), *waits)

        job = parent.enqueue()
        jobs.drain()
        assert jobs.get(job).error_code == "CHILD:FAILED"
        works.append(1)
        jobs.retry(job)
        jobs.drain()
        jobs.signal(job, "b", "by b")
        jobs.drain()
        assert jobs.get(job).result == [3, "by b"]
        jobs.retry(job, from_step="b")
        jobs.drain()
        assert [step.status for step in jobs.steps(job)] == ["waiting"] * 5
        jobs.signal(job, "a", "by a")
        jobs.drain()
        assert jobs.get(job).result == [2, "by a"]
        children = [child.status for child in jobs.list(parent=job).jobs]
        assert sorted(children) == ["cancelled", "cancelled", "failed"]

    def test_a_sleep_before_a_signal_which_stays(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        async def reminded(ctx: Context) -> list[object]:
            first = await ctx.first(ctx.wait_for("paid"), ctx.sleep(60))
            return [*first, await ctx.wait_for("paid")]

        job = reminded.enqueue()
        jobs.drain()
        clock.advance(60)
        jobs.drain()
        assert [step.status for step in jobs.steps(job)] == ["abandoned", "finished", "finished", "waiting"]
        jobs.signal(job, "paid", "late")
        jobs.drain()
        assert jobs.get(job).result == [1, None, "late"]

    def test_a_child_before_others(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def quick(number: int) -> int:
            return number

        @jobs.task
        async def slow(ctx: Context) -> None:
            await ctx.sleep(1000)

        @jobs.task
        async def race(ctx: Context) -> list[object]:
            index, value = await ctx.first(
                ctx.call(slow), ctx.call(quick, 5), ctx.wait_for("paid"), ctx.call(slow.using(detach=True))
            )
            return [index, value, await ctx.call(quick, 6)]

        @jobs.task
        async def nothing(ctx: Context) -> None:
            await ctx.first()

        job, empty = race.enqueue(), nothing.enqueue()
        jobs.drain()
        assert jobs.get(job).result == [1, 5, 6]
        steps = jobs.steps(job)
        assert [step.status for step in steps[:5]] == ["abandoned", "finished", "abandoned", "abandoned", "finished"]
        lost, kept = (jobs.get(steps[place].child_id or 0) for place in (0, 3))
        assert (lost.status, lost.error_code, kept.status) == ("cancelled", "CANCELLED:BY_HAND", "scheduled")
        assert "at least one wait" in (jobs.get(empty).error_detail or "")


class TestFamilies:
    def test_children_are_cancelled_with_their_parent(self, jobs: Rowcall) -> None:
        @jobs.task
        async def leaf(ctx: Context) -> None:
            await ctx.wait_for("never")

        @jobs.task
        async def middle(ctx: Context) -> None:
            await ctx.call(leaf)

        @jobs.task
        async def top(ctx: Context) -> None:
            await ctx.gather(ctx.call(middle), ctx.call(leaf), ctx.call(leaf.using(detach=True)))

        job = top.enqueue()
        jobs.drain()
        assert len(jobs.list(parent=job).jobs) == 3
        jobs.cancel(job)
        jobs.drain()
        states = {child.id: child.status for child in jobs.list(parent=job).jobs}
        assert sorted(states.values()) == ["cancelled", "cancelled", "scheduled"]
        (grandchild,) = jobs.list(parent=min(states)).jobs
        assert (grandchild.status, grandchild.error_code) == ("cancelled", "CANCELLED:BY_HAND")
        assert jobs.list(parent=job, status="scheduled").jobs[0].id == max(states)
        with pytest.raises(InvalidOption, match="detach has no effect"):
            leaf.using(detach=True).enqueue()

    def test_a_parent_keeps_its_children(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        def child() -> str:
            return "done"

        @jobs.task
        async def parent(ctx: Context) -> str:
            result = await ctx.call(child)
            await ctx.wait_for("go")
            return str(result)

        job = parent.enqueue()
        jobs.drain()
        child_id = jobs.steps(job)[0].child_id
        assert child_id is not None
        with pytest.raises(StillNeeded) as raised:
            jobs.delete(child_id)
        assert raised.value.needed_by == [job.id]
        clock.advance(10 * 365 * 86400)
        jobs.prune()
        assert jobs.get(child_id).status == "succeeded"
        jobs.delete(job)
        assert jobs.get(child_id).parent_id == job.id
        jobs.delete(child_id)

    def test_a_family_that_waits_is_not_deleted(self, jobs: Rowcall) -> None:
        @jobs.task
        def leaf(ctx: Context) -> None:
            ctx.wait_for("never")

        @jobs.task
        def middle(ctx: Context) -> None:
            ctx.gather(partial(ctx.call, leaf), partial(ctx.call, leaf))

        @jobs.task
        def first(ctx: Context) -> None:
            ctx.continue_with(middle)

        @jobs.task
        def top(ctx: Context) -> None:
            ctx.call(first)
            ctx.call(middle)

        job = top.enqueue()
        jobs.drain()
        child, chain = jobs.list(parent=job).jobs  # the newest first
        leaves = [leaf.id for leaf in jobs.list(parent=child).jobs]
        with pytest.raises(WrongState, match=f"its child {child.id} has not ended; cancel it first"):
            jobs.delete(job)
        with pytest.raises(StillNeeded):
            jobs.delete(max(leaves))
        assert jobs.delete(status="scheduled") == 0
        for cascade in (False, True):
            with pytest.raises((StillNeeded, WrongState)):
                jobs.delete_chain(chain.id, cascade=cascade)
        jobs.cancel(job)
        jobs.cancel_chain(chain.id)
        jobs.drain()
        assert {jobs.get(one).status for one in (job.id, child.id, *leaves)} == {"cancelled"}
        assert jobs.delete_chain(chain.id) == 2
        jobs.delete(job)
        jobs.delete(child.id)

    def test_a_parent_whose_children_are_detached_may_be_deleted(self, jobs: Rowcall) -> None:
        @jobs.task
        def child(ctx: Context) -> object:
            return ctx.wait_for("go")

        @jobs.task
        def parent(ctx: Context) -> object:
            return ctx.call(child.using(detach=True))

        job = parent.enqueue()
        jobs.drain()
        (detached,) = jobs.list(parent=job).jobs
        jobs.delete(job)
        jobs.signal(detached, "go", 5)
        jobs.drain()
        assert jobs.get(detached).result == 5

    def test_a_retry_calls_again_what_has_failed(self, jobs: Rowcall) -> None:
        works: list[int] = []

        @jobs.task(max_attempts=1)
        def load(number: int) -> int:
            if number == 2 and not works:
                raise ValueError("no route")
            return number

        @jobs.task
        async def parent(ctx: Context) -> list[int]:
            return list(await ctx.gather(*(ctx.call(load, number) for number in (1, 2, 3))))

        job = parent.enqueue()
        jobs.drain()
        assert jobs.get(job).error_code == "CHILD:FAILED"
        before = {step.position: step.child_id for step in jobs.steps(job)}
        works.append(1)
        jobs.retry(job)
        jobs.drain()
        assert jobs.get(job).result == [1, 2, 3]
        after = {step.position: step.child_id for step in jobs.steps(job)}
        assert [place for place in before if before[place] != after[place]] == [2]

    @pytest.mark.parametrize("by", ["retry from a step", "replaced"])
    def test_a_parent_that_starts_over_cancels_the_children_that_it_forgets(self, jobs: Rowcall, by: str) -> None:
        @jobs.task
        def child(ctx: Context) -> object:
            return ctx.wait_for("go")

        @jobs.task(key="k", on_duplicate="replace")
        def parent(ctx: Context) -> tuple[object, ...]:
            ctx.step("plan", int)
            return ctx.gather(partial(ctx.call, child), partial(ctx.call, child.using(detach=True)))

        job = parent.enqueue()
        jobs.drain()
        if by == "replaced":
            assert parent.enqueue().id == job.id
        else:
            jobs.retry(job, from_step="child")
        jobs.drain()
        children = {child.id: child.status for child in jobs.list(parent=job).jobs}
        first, second, third, fourth = sorted(children)
        assert children == {first: "cancelled", second: "scheduled", third: "scheduled", fourth: "scheduled"}
        for again in (third, fourth):
            jobs.signal(again, "go", again)
        jobs.drain()
        assert jobs.get(job).result == [third, fourth]

    def test_cycles_of_waits_are_refused(self, jobs: Rowcall) -> None:
        errors: list[str] = []

        @jobs.task
        def follower() -> None: ...

        @jobs.task(ordered_by="account")
        def parent(ctx: Context, account: int) -> None:
            later = follower.using(after=ctx.job).enqueue()
            last = follower.using(after=later).enqueue()
            calls: list[Callable[[], object]] = [
                lambda: ctx.call(follower.using(after=ctx.job)),
                lambda: ctx.call(follower.using(after=last)),
                lambda: ctx.call("parent", account=account),
                lambda: ctx.call(follower.using(key="k")),
            ]
            for call in calls:
                try:
                    call()
                except (InvalidOption, DuplicateJob) as error:
                    errors.append(str(error))

        follower.using(key="k", delay=1000).enqueue()
        job = parent.enqueue(7)
        jobs.drain()
        assert jobs.get(job).status == "succeeded", jobs.get(job)
        assert len(errors) == 4, errors
        back = f"after leads back to job {job.id}, which calls this job and waits for its end"
        assert errors[:2] == [back, back]
        assert f"the same value as job {job.id}, which waits for this one" in errors[2]
        assert "already has the key 'k'" in errors[3]

    def test_a_signal_with_a_key_is_received_once(self, jobs: Rowcall) -> None:
        @jobs.task
        async def paid(ctx: Context) -> list[object]:
            first = await ctx.wait_for("paid")
            await ctx.step("book", asyncio.sleep, 0)
            return [first, await ctx.wait_for("paid")]

        job = paid.enqueue()
        jobs.signal(job, "paid", 1, key="evt_1")
        jobs.signal(job, "paid", 2, key="evt_1")
        jobs.drain()
        assert jobs.get(job).status == "scheduled"
        jobs.signal(job, "paid", 3, key="evt_1")
        jobs.drain()
        assert jobs.get(job).status == "scheduled"
        jobs.signal(job, "paid", 4, key="evt_2")
        jobs.drain()
        assert jobs.get(job).result == [1, 4]
        jobs.signal(job, "paid", 4, key="evt_2")  # a webhook that comes again after the end
        with pytest.raises(WrongState):
            jobs.signal(job, "paid", 5, key="evt_3")
        jobs.retry(job, from_step="book")  # the second wait takes its signal again, the first one keeps it
        for value, key in enumerate(["evt_1", "evt_2", "evt_2"], 6):
            jobs.signal(job, "paid", value, key=key)
        jobs.drain()
        assert jobs.get(job).result == [1, 7]
        other = paid.enqueue()
        with pytest.raises(InvalidOption, match="key"):
            jobs.signal(other, "paid", key="")
