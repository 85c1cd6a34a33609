"""Durable steps: what finished is not run again; sleeps and waits end the attempt without counting it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest

from rowcall import (
    Backoff,
    Cancel,
    Context,
    Fail,
    InvalidArguments,
    InvalidOption,
    LeaseLost,
    RecordedStep,
    Retry,
    Rowcall,
    SignalTimeout,
    Snooze,
    WrongState,
)
from rowcall.app import queue_of
from rowcall.testing.fake_clock import FakeClock


@dataclass
class Customer:
    id: int
    name: str


def summary(steps: list[RecordedStep]) -> list[tuple[str, str, str]]:
    return [(step.kind, step.name, step.status) for step in steps]


class TestSteps:
    def test_a_finished_step_is_not_run_again(self, jobs: Rowcall, clock: FakeClock) -> None:
        calls: list[str] = []

        async def create(user_id: int) -> Customer:
            calls.append("create")
            return Customer(user_id, "ann")

        def rename(customer: Customer, *, name: str) -> Customer:  # not async: it runs in a thread
            calls.append(f"rename {customer.name}")
            return Customer(customer.id, name)

        @jobs.task(retry=Backoff.constant(1))
        async def on_the_loop(ctx: Context, user_id: int) -> str:
            customer = await ctx.step("customer", create, user_id)
            renamed: Customer = await ctx.step("rename", rename, customer, name="bo")  # type: ignore[arg-type]
            if len(calls) < 3:
                calls.append("fail")
                raise RuntimeError("after two steps")
            return renamed.name

        job = on_the_loop.enqueue(7)
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        assert calls == ["create", "rename ann", "fail"]
        assert (jobs.get(job).result, jobs.get(job).attempt) == ("bo", 2)
        assert summary(jobs.steps(job)) == [("step", "customer", "finished"), ("step", "rename", "finished")]
        assert jobs.steps(job)[0].result == {"id": 7, "name": "ann"}

    def test_in_threads_each_attempt_sees_the_same_value(self, jobs: Rowcall, clock: FakeClock) -> None:
        seen: list[object] = []

        def pair() -> tuple[int, int]:
            return 1, 2

        def untyped():  # type: ignore[no-untyped-def]
            return (1, {2: None})

        @jobs.task(retry=Backoff.constant(1))
        def in_a_thread(ctx: Context) -> None:
            seen.append((ctx.step("pair", pair), ctx.step("untyped", untyped), ctx.step("none", print, end="")))
            if len(seen) == 1:
                raise RuntimeError("again")

        job = in_a_thread.enqueue()
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        assert seen == [((1, 2), [1, {"2": None}], None)] * 2
        assert jobs.get(job).status == "succeeded"

    def test_steps_run_side_by_side_in_an_async_handler(self, jobs: Rowcall, clock: FakeClock) -> None:
        calls: list[str] = []

        async def meet(name: str) -> str:
            calls.append(name)
            await barrier.wait()
            if name == "b" and len(calls) == 2:
                raise RuntimeError("only the first time")
            return name.upper()

        barrier = asyncio.Barrier(2)

        @jobs.task(retry=Backoff.constant(1))
        async def both(ctx: Context) -> list[str]:
            nonlocal barrier
            barrier = asyncio.Barrier(1 if calls else 2)
            return list(await ctx.gather(ctx.step("a", meet, "a"), ctx.step("b", meet, "b")))

        job = both.enqueue()
        jobs.drain()
        assert summary(jobs.steps(job)) == [("step", "a", "finished")]
        clock.advance(1)
        jobs.drain()
        assert calls == ["a", "b", "b"]
        assert jobs.get(job).result == ["A", "B"]

    def test_a_step_is_tried_again_by_itself(self, jobs: Rowcall, clock: FakeClock) -> None:
        calls: list[str] = []

        def flaky() -> str:
            calls.append("flaky")
            if len(calls) < 5:
                raise ConnectionError("no route")
            return "done"

        @jobs.task(max_attempts=3, retry=Backoff.constant(1))
        def handler(ctx: Context) -> str:
            ctx.step("before", calls.append, "before")
            return ctx.step("flaky", flaky, retry=Backoff.linear(10))

        job = handler.enqueue()
        jobs.drain()
        assert summary(jobs.steps(job)) == [("step", "before", "finished"), ("step", "flaky", "waiting")]
        failed = jobs.steps(job)[1]
        assert (failed.failures, failed.error_detail) == (1, "no route")
        assert failed.due_at == jobs.get(job).run_at
        clock.advance(10)
        jobs.drain()
        assert calls == ["before", "flaky", "flaky"]
        assert jobs.get(job).attempt == 0  # none is used up
        clock.advance(20)
        jobs.drain()  # the third failure of three: the attempt fails
        assert jobs.get(job).attempt == 1
        clock.advance(1)
        jobs.drain()
        assert calls == ["before", *["flaky"] * 4]
        assert jobs.get(job).result == "done"

    def test_a_step_that_runs_too_long_fails_and_its_result_is_dropped(self, jobs: Rowcall, clock: FakeClock) -> None:
        release, went_on = threading.Event(), threading.Event()
        stuck = [True]

        def slow(value: int) -> int:
            if stuck.pop() if stuck else False:
                release.wait()
                went_on.set()
                return -1
            return value

        async def aslow(value: int) -> int:
            if stuck.pop() if stuck else False:
                await asyncio.Event().wait()
            return value

        async def raises() -> None:
            raise TimeoutError("of the function")

        @jobs.task(retry=Backoff.constant(1))
        def in_a_thread(ctx: Context) -> int:
            return ctx.step("slow", slow, 1, timeout=0.05 if stuck else 30)

        @jobs.task(retry=Backoff.constant(1))
        async def on_the_loop(ctx: Context) -> int:
            with pytest.raises(TimeoutError, match="of the function"):
                await ctx.step("raises", raises, timeout=30)
            return await ctx.step("slow", aslow, 2, timeout=0.05 if stuck else 30)

        first = in_a_thread.enqueue()
        jobs.drain()
        (attempt,) = jobs.attempts(first)
        assert attempt.error_code == "TIMEOUT:STEP"
        assert attempt.error_detail == f"job {first.id}: step 'slow' ran longer than its timeout of 0.05 s"
        release.set()
        assert went_on.wait(30)
        stuck.append(True)
        second = on_the_loop.enqueue()
        jobs.drain()
        assert jobs.attempts(second)[0].error_code == "TIMEOUT:STEP"
        clock.advance(1)
        jobs.drain()
        assert (jobs.get(first).result, jobs.get(second).result) == (1, 2)

    @pytest.mark.parametrize("is_async", [True, False])
    def test_a_step_that_has_timed_out_appends_and_completes_nothing(self, jobs: Rowcall, is_async: bool) -> None:
        release, ended = threading.Event(), threading.Event()
        refused: list[str] = []

        def slow(ctx: Context) -> None:
            ctx.stream("in time")
            release.wait()
            calls = (
                partial(ctx.stream, "late"),
                partial(ctx.continue_with, "slow"),
                partial(ctx.complete, connection=None),
            )
            for call in calls:
                try:
                    call()
                except RuntimeError as error:
                    refused.append(str(error))
            ended.set()

        @jobs.task
        def in_a_thread(ctx: Context) -> None:
            with pytest.raises(TimeoutError):
                ctx.step("slow", slow, ctx, timeout=0.05)
            release.set()
            assert ended.wait(30)

        @jobs.task
        async def on_the_loop(ctx: Context) -> None:
            with pytest.raises(TimeoutError):
                await ctx.step("slow", cast(Any, slow), ctx, timeout=0.05)
            release.set()
            assert await asyncio.to_thread(ended.wait, 30)

        job = (on_the_loop if is_async else in_a_thread).enqueue()
        jobs.drain()
        assert jobs.get(job).status == "succeeded"
        called = ("stream", "continue_with", "complete")
        assert refused == [f"ctx.{what} was called in step 'slow' after its timeout" for what in called]
        assert list(jobs.stream(job)) == ["in time"]

    def test_a_timeout_that_could_be_meant_for_the_function_is_refused(self, jobs: Rowcall) -> None:
        def fetch(timeout: float = 5) -> float:
            return timeout

        def get(url: str = "/", **options: float) -> float:
            return fetch(**options)

        @jobs.task
        def handler(ctx: Context) -> list[float]:
            step: Any = ctx.step
            for wrong in (0, -1, "soon", True):
                with pytest.raises(InvalidOption, match="timeout"):
                    step("wrong", len, "abc", timeout=wrong)
            with pytest.raises(InvalidOption, match=r"fetch takes a parameter of this name: pass functools\.partial"):
                ctx.step("fetch", fetch, timeout=3)
            with pytest.raises(InvalidOption, match=r"get takes a parameter of this name: pass functools\.partial"):
                ctx.step("get", get, timeout=3)
            with pytest.raises(InvalidOption, match="cannot be combined with connection"):
                ctx.step("fetch", partial(fetch), timeout=3, connection=object())
            return [
                ctx.step("its own", partial(fetch, timeout=3)),
                ctx.step("both", partial(fetch, timeout=3), timeout=30),
                ctx.step("default", fetch),
            ]

        job = handler.enqueue()
        jobs.drain()
        assert jobs.get(job).result == [3, 3, 5]

    def test_a_step_commits_with_the_callers_transaction(self, jobs: Rowcall, clock: FakeClock) -> None:
        calls: list[int] = []

        @jobs.task(retry=Backoff.constant(1))
        def handler(ctx: Context) -> None:
            try:
                with jobs.transaction() as transaction:
                    ctx.step("charge", calls.append, len(calls), connection=transaction)
                    if not queue_of(jobs).dialect.one_writer:
                        ctx.step("other", int)  # the transaction does not keep others of the attempt out
                    if len(calls) == 1:
                        raise RuntimeError("rolled back")
            finally:
                charged = [step for step in jobs.steps(ctx.job) if step.name == "charge"]
                assert len(charged) == (0 if len(calls) == 1 else 1)
            if len(calls) == 2:
                calls.append(2)
                raise RuntimeError("committed")

        job = handler.enqueue()
        for _ in range(3):
            jobs.drain()
            clock.advance(1)
        assert calls == [0, 1, 2]
        assert jobs.get(job).status == "succeeded"

    def test_no_step_follows_a_completion(self, jobs: Rowcall) -> None:
        @jobs.task
        def handler(ctx: Context) -> None:
            with jobs.transaction() as transaction:
                ctx.complete("done", connection=transaction)
                with pytest.raises(WrongState, match="it is completed already"):
                    ctx.step("late", int)

        job = handler.enqueue()
        jobs.drain()
        assert (jobs.get(job).result, jobs.steps(job)) == ("done", [])

    def test_a_failed_job_continues_and_a_succeeded_one_starts_over(self, jobs: Rowcall) -> None:
        calls: list[str] = []

        @jobs.task(max_attempts=1)
        def handler(ctx: Context) -> None:
            ctx.step("one", calls.append, "one")
            if len(calls) == 1:
                calls.append("fail")
                raise RuntimeError("no")

        job = handler.enqueue()
        for _ in range(3):
            jobs.drain()
            jobs.retry(job)
        assert calls == ["one", "fail", "one"]
        assert jobs.steps(job) == []  # the last retry has deleted them

    @pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled"])
    def test_a_job_runs_again_from_a_step(self, jobs: Rowcall, end: str) -> None:
        calls: list[str] = []

        @jobs.task(max_attempts=1)
        def order(ctx: Context) -> str:
            for name in ("price", "charge", "mail"):
                ctx.step(name, calls.append, name)
            if len(calls) == 3 and end != "succeeded":
                raise Fail("TEST:CODE") if end == "failed" else Cancel("no")
            return str(ctx.wait_for("later")) if end == "succeeded" and len(calls) > 3 else "done"

        job = order.enqueue()
        jobs.drain()
        before = jobs.get(job)
        for wrong in ("chrage", ""):
            with pytest.raises(InvalidOption, match=f"must be a recorded step of job {job.id}, got '{wrong}'"):
                jobs.retry(job, from_step=wrong)
        with pytest.raises(InvalidOption, match="'price', 'charge', 'mail'"):
            jobs.retry(job, from_step="none")
        assert (jobs.get(job), len(jobs.steps(job))) == (before, 3)
        again = jobs.retry(job, from_step="charge", actor="ann")
        assert (again.id, again.status) == (job.id, "pending")
        assert [step.name for step in jobs.steps(job)] == ["price"]
        (event,) = [event for event in jobs.timeline(job) if event.event == "MANUAL_RETRY"]
        assert (event.actor, event.detail) == ("ann", "from step 'charge'")
        jobs.drain()
        assert calls == ["price", "charge", "mail", "charge", "mail"]
        if end == "succeeded":  # now it waits, and may run again from a step as well
            assert jobs.get(job).status == "scheduled"
            jobs.retry(job, from_step="mail")
            jobs.signal(job, "later", 7)
            jobs.drain()
            assert calls[5:] == ["mail"]
            assert jobs.get(job).result == "7"

    def test_a_retry_from_a_step_needs_one_job_that_does_not_run(self, jobs: Rowcall) -> None:
        job = jobs.enqueue("send")
        with pytest.raises(InvalidOption, match="needs one job"):
            jobs.retry(status="failed", from_step="charge")  # type: ignore[call-overload]
        with pytest.raises(InvalidOption, match="must be the name of a step, got 3"):
            jobs.retry(job, from_step=3)  # type: ignore[call-overload]
        with pytest.raises(InvalidOption, match="it has none"):
            jobs.retry(job, from_step="charge")
        jobs.claim("hand")
        with pytest.raises(WrongState):
            jobs.retry(job, from_step="charge")

    def test_a_replaced_job_starts_over(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(key="one", on_duplicate="replace")
        def work(ctx: Context, number: int) -> int:
            doubled = ctx.step("double", lambda: number * 2)
            index, paid = ctx.first(partial(ctx.wait_for, "paid"), partial(ctx.sleep, 1000))
            ctx.sleep(1)
            return doubled + (paid if index == 0 else 0)

        job = work.enqueue(1)
        jobs.signal(job, "paid", 10, key="evt_1")
        jobs.drain()
        assert work.enqueue(2).id == job.id
        assert jobs.steps(job) == []
        jobs.signal(job, "paid", 20, key="evt_1")  # the new arguments have not received it
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        assert jobs.get(job).result == 24

    def test_a_large_result_is_read_back(self, jobs: Rowcall, clock: FakeClock) -> None:
        seen: list[int] = []

        @jobs.task(retry=Backoff.constant(1))
        async def handler(ctx: Context) -> None:
            async def large() -> str:
                return "x" * 3_000_000

            seen.append(len(await ctx.step("large", large)))
            if len(seen) == 1:
                raise RuntimeError("again")

        job = handler.enqueue()
        jobs.drain()
        clock.advance(1)
        jobs.drain()
        assert seen == [3_000_000] * 2
        assert len(str(jobs.steps(job)[0].result)) == 3_000_000

    def test_steps_are_deleted_with_their_job(self, jobs: Rowcall) -> None:
        @jobs.task
        def handler(ctx: Context) -> None:
            ctx.step("one", int)

        job = handler.enqueue()
        jobs.signal(job, "unused")
        jobs.drain()
        assert [event.event for event in jobs.timeline(job)].count("STEP_FINISHED") == 1
        jobs.delete(job)
        again = handler.enqueue()
        assert jobs.steps(again) == []

    def test_a_changed_handler_is_held_and_says_which_step(self, jobs: Rowcall, clock: FakeClock) -> None:
        order = ["a", "b"]

        @jobs.task(retry=Backoff.constant(1))
        def handler(ctx: Context, fails: bool = True) -> None:
            for name in order:
                ctx.step(name, int)
            raise RuntimeError("again")

        job = handler.enqueue()
        jobs.drain()
        order.reverse()
        clock.advance(1)
        jobs.drain()
        found = jobs.get(job)
        assert (found.status, found.error_code) == ("pending", "STEPS:CHANGED")
        assert "step 1 is recorded as step 'a', and the handler now calls step 'b'" in str(found.error_detail)

    def test_a_handler_that_returns_without_a_recorded_step_does_not_succeed(
        self, jobs: Rowcall, clock: FakeClock
    ) -> None:
        names = ["a", "b", "c"]

        @jobs.task(retry=Backoff.constant(1))
        async def handler(ctx: Context) -> None:
            for name in names:
                await ctx.step(name, asyncio.sleep, 0)
            if len(names) == 3:
                raise RuntimeError("again")

        job = handler.enqueue()
        jobs.drain()
        del names[1:]
        clock.advance(1)
        jobs.drain()
        found = jobs.get(job)
        assert (found.status, found.error_code) == ("pending", "STEPS:CHANGED")
        assert "step 2 is recorded as step 'b', and the handler has returned without it" in str(found.error_detail)
        names[:] = ["a", "b", "c", "d"]
        jobs.reschedule(job, delay=0)  # every version tries it again
        jobs.drain()
        assert jobs.get(job).status == "succeeded"

    def test_a_step_that_is_not_awaited_fails_the_job_at_once(self, jobs: Rowcall) -> None:
        @jobs.task
        async def forgotten(ctx: Context) -> str:
            await ctx.step("a", asyncio.sleep, 0)
            ctx.step("b", asyncio.sleep, 0)
            return "done"

        @jobs.task
        async def abandoned(ctx: Context) -> None:
            running = asyncio.ensure_future(ctx.step("c", asyncio.Event().wait))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(running.cancel)

        for task, place in ((forgotten, "step 'b'"), (abandoned, "step 'c'")):
            job = task.enqueue()
            jobs.drain()
            found = jobs.get(job)
            assert (found.status, found.error_code) == ("failed", "STEPS:NOT_AWAITED")
            assert f"the handler called {place}, and did not await it to its end" in str(found.error_detail)

    @pytest.mark.parametrize(
        ("wrong", "code", "detail"),
        [
            ("twice", "STEPS:DUPLICATE_NAME", "step name 'x' is used twice"),
            ("not json", "INVALID_OUTPUT:NOT_JSON", "step 'x' returned"),
            ("nested", "STEPS:NOT_ALLOWED", "inside step 'x'"),
        ],
    )
    def test_a_wrong_step_fails_the_job_at_once(self, jobs: Rowcall, wrong: str, code: str, detail: str) -> None:
        @jobs.task
        def handler(ctx: Context) -> None:
            if wrong == "nested":
                ctx.step("x", lambda: ctx.step("y", int))
            ctx.step("x", object if wrong == "not json" else int)
            ctx.step("x", int)

        job = handler.enqueue()
        jobs.drain()
        found = jobs.get(job)
        assert (found.status, found.error_code) == ("failed", code)
        assert detail in str(found.error_detail)

    def test_a_step_after_the_handler_has_returned_is_refused(self, jobs: Rowcall) -> None:
        kept: list[Context] = []

        @jobs.task
        def handler(ctx: Context) -> None:
            kept.append(ctx)

        job = handler.enqueue()
        jobs.drain()
        with pytest.raises(RuntimeError, match=r"ctx\.step was called after the handler had ended"):
            kept[0].step("late", int)
        assert jobs.steps(job) == []

    def test_a_batch_has_no_steps(self, jobs: Rowcall) -> None:
        @jobs.task(batch=2, batch_wait=0.0, max_attempts=1)
        def handler(ctx: Context, items: list[int]) -> None:
            ctx.step("x", int)

        job = handler.enqueue(1)
        jobs.drain()
        assert "not available in a batch" in str(jobs.get(job).error_detail)


class TestStepFence:
    def test_a_lost_attempt_writes_nothing(self, jobs: Rowcall) -> None:
        lost: list[Exception] = []
        released = threading.Event()

        @jobs.task
        def handler(ctx: Context) -> None:
            ctx.step("first", int)
            if released.is_set():
                return
            released.set()
            jobs.release(ctx.job)  # as if another worker had recovered it
            for use in (lambda: ctx.step("second", int), lambda: ctx.sleep(60), lambda: ctx.wait_for("go")):
                try:
                    use()
                except LeaseLost as error:
                    lost.append(error)
            with jobs.transaction() as transaction:
                ctx.step("last", int, connection=transaction)

        job = handler.enqueue()
        jobs.drain()
        assert len(lost) == 3
        assert jobs.get(job).status == "succeeded"
        assert summary(jobs.steps(job)) == [("step", "first", "finished")]


class TestSleeps:
    def test_a_sleep_ends_the_attempt_without_counting_it(self, jobs: Rowcall, clock: FakeClock) -> None:
        calls: list[str] = []

        @jobs.task(max_attempts=1, expires_in=60)
        async def handler(ctx: Context) -> str:
            await ctx.sleep(0)
            await ctx.step("before", asyncio.sleep, 0)
            calls.append("asleep")
            try:
                await ctx.sleep(3600)
            except Exception:  # it is not one
                calls.append("caught")
            return "awake"

        job = handler.enqueue()
        jobs.drain()
        found = jobs.get(job)
        assert (found.status, found.attempt, found.run_at) == ("scheduled", 0, jobs.steps(job)[2].due_at)
        assert "sleep" in jobs.why(job).sentence
        clock.advance(3600)
        jobs.drain()
        assert (jobs.get(job).result, jobs.get(job).attempt) == ("awake", 1)
        assert calls == ["asleep"] * 2
        assert [(one.status, one.finished_at == one.due_at) for one in jobs.steps(job)[2:]] == [("finished", True)]
        events = [(event.event, event.detail) for event in jobs.timeline(job) if event.event == "SLEEPING"]
        assert len(events) == 2

    @pytest.mark.parametrize("raised", [None, Retry(delay=5), Snooze(delay=5)], ids=repr)
    def test_a_handler_cannot_go_on_after_it_caught_the_end(
        self, jobs: Rowcall, clock: FakeClock, raised: Exception | None
    ) -> None:
        @jobs.task(max_attempts=1)
        def handler(ctx: Context) -> str:
            try:
                ctx.sleep(60)
            except BaseException:
                if raised is not None:
                    raise raised from None
                return "too early"
            return "awake"

        job = handler.enqueue()
        jobs.drain()
        found = jobs.get(job)
        assert (found.status, found.attempt, found.run_at) == ("scheduled", 0, jobs.steps(job)[0].due_at)
        clock.advance(60)
        jobs.drain()
        assert jobs.get(job).result == "awake"

    def test_an_error_after_the_end_fails_the_attempt(self, jobs: Rowcall) -> None:
        @jobs.task
        def handler(ctx: Context) -> None:
            try:
                ctx.sleep(60)
            finally:
                raise OSError("the teardown failed")

        job = handler.enqueue()
        jobs.drain()
        assert (jobs.get(job).attempt, jobs.get(job).error_code) == (1, "INTERNAL:OSError")

    def test_other_steps_of_a_gather_go_on_while_one_sleeps(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task
        async def handler(ctx: Context) -> object:
            return await ctx.gather(
                ctx.sleep(60), ctx.wait_for("go", timeout=30), ctx.step("one", asyncio.sleep, 0, "done")
            )

        job = handler.enqueue()
        jobs.drain()
        assert summary(jobs.steps(job)) == [
            ("sleep", "", "waiting"),
            ("wait", "go", "waiting"),
            ("step", "one", "finished"),
        ]
        assert jobs.get(job).run_at == jobs.steps(job)[1].due_at
        jobs.signal(job, "go", 5)
        jobs.drain()
        assert jobs.get(job).run_at == jobs.steps(job)[0].due_at
        clock.advance(60)
        jobs.drain()
        assert jobs.get(job).result == [None, 5, "done"]


class TestSignals:
    def test_a_signal_is_received_once_whenever_it_is_sent(self, jobs: Rowcall) -> None:
        @jobs.task(max_attempts=1)
        def handler(ctx: Context) -> list[object]:
            return [ctx.wait_for("go"), ctx.wait_for("go"), ctx.wait_for("other")]

        job = handler.enqueue()
        jobs.signal(job, "go", {"n": 1})  # before it runs
        jobs.drain()
        assert jobs.get(job).status == "scheduled"
        assert jobs.why(job).sentence == "it waits for signal 'go'"
        jobs.signal(job.id, "elsewhere")
        jobs.drain()
        assert summary(jobs.steps(job)) == [("wait", "go", "finished"), ("wait", "go", "waiting")]
        with jobs.transaction() as transaction:
            jobs.signal(job, "go", connection=transaction)
        jobs.drain()
        jobs.signal(job, "other", [2])
        jobs.drain()
        assert jobs.get(job).result == [{"n": 1}, None, [2]]
        with pytest.raises(WrongState, match="has already succeeded"):
            jobs.signal(job, "go")

    def test_a_signal_is_a_value_of_the_type_that_is_waited_for(self, jobs: Rowcall) -> None:
        @jobs.task
        async def patient(ctx: Context) -> str:
            try:
                customer = await ctx.wait_for("customer", Customer)
            except InvalidArguments:
                customer = await ctx.wait_for("customer", Customer)
            return customer.name

        @jobs.task
        def strict(ctx: Context) -> str:
            customer: Customer = ctx.wait_for("customer", Customer)
            return customer.name

        made = [patient.enqueue(), strict.enqueue(), strict.enqueue()]
        for job, value in zip(
            [made[0], *made], [{"id": "x"}, {"id": 1, "name": "ann"}, {"id": 2, "name": "bo"}, 7], strict=True
        ):
            jobs.signal(job, "customer", value)
        jobs.drain()
        assert [jobs.get(job).result for job in made] == ["ann", "bo", None]
        failed = jobs.get(made[2])
        assert (failed.status, failed.attempt, failed.error_code) == ("failed", 1, "INVALID_INPUT:SIGNAL")

    def test_a_wait_times_out_for_good(self, jobs: Rowcall, clock: FakeClock) -> None:
        @jobs.task(retry=Backoff.constant(1))
        async def handler(ctx: Context) -> str:
            try:
                await ctx.wait_for("go", timeout=60)
            except TimeoutError:
                if ctx.job.attempt == 1:
                    raise RuntimeError("again") from None
                return "timed out"
            return "signalled"

        @jobs.task
        def uncaught(ctx: Context) -> None:
            ctx.wait_for("go", timeout=60)

        job, other = handler.enqueue(), uncaught.enqueue()
        jobs.drain()
        clock.advance(60)
        jobs.drain()
        jobs.signal(job, "go")  # too late
        clock.advance(1)
        jobs.drain()
        assert jobs.get(job).result == "timed out"
        assert (jobs.get(other).status, jobs.get(other).error_code) == ("failed", "TIMEOUT:SIGNAL")
        assert issubclass(SignalTimeout, TimeoutError)

    def test_a_signal_that_comes_while_the_attempt_ends_is_not_missed(self, jobs: Rowcall) -> None:
        @jobs.task
        def handler(ctx: Context) -> object:
            try:
                return ctx.wait_for("go")
            except BaseException:
                jobs.signal(ctx.job, "go", "now")  # after the wait was written, before the attempt is settled
                raise

        job = handler.enqueue()
        jobs.drain()
        assert jobs.get(job).result == "now"

    def test_a_signal_does_not_shorten_the_wait_for_a_retry(self, jobs: Rowcall, clock: FakeClock) -> None:
        calls: list[int] = []

        async def fail() -> None:
            calls.append(1)
            raise ConnectionError("refused")

        @jobs.task(retry=Backoff.constant(60))
        async def work(ctx: Context) -> None:
            await ctx.gather(ctx.wait_for("go"), ctx.step("call", fail))

        job = work.enqueue()
        jobs.drain()
        jobs.signal(job, "go")
        jobs.drain()
        assert len(calls) == 1
        clock.advance(60)
        jobs.drain()
        assert len(calls) == 2
        assert jobs.steps(job)[0].status == "finished"

    def test_wrong_signals_are_refused(self, jobs: Rowcall) -> None:
        @jobs.task
        def handler(ctx: Context) -> None: ...

        job = handler.enqueue()
        with pytest.raises(InvalidArguments, match="signal 'go': the value is"):
            jobs.signal(job, "go", object())
        with pytest.raises(InvalidOption, match="must have 1 to 200 characters"):
            jobs.signal(job, "")
        assert [event.event for event in jobs.timeline(job)] == ["ENQUEUED"]
