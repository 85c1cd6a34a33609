"""Middleware around attempts: in threads, on the event loop and in batches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import timedelta

import pytest

from rowcall import Context, InvalidArguments, InvalidOption, JobOutcome, Retry, Rowcall, Snooze
from rowcall.middleware import AsyncCallNext, CallNext, EnqueueCall, Middleware, around
from rowcall.testing.fake_clock import FakeClock

tenant: ContextVar[str] = ContextVar("tenant", default="none")


def add_tenant(call: EnqueueCall) -> None:
    call.arguments["tenant"] = tenant.get()
    call.options["tags"] = [*call.options.get("tags", ()), f"tenant:{tenant.get()}"]


@contextmanager
def as_tenant(name: str) -> Iterator[None]:
    token = tenant.set(name)
    try:
        yield
    finally:
        tenant.reset(token)


class TestMiddleware:
    def test_it_surrounds_each_kind_of_handler_in_the_order_of_registration(self, jobs: Rowcall) -> None:
        seen: list[str] = []

        def named(name: str) -> Middleware:
            def sync(ctx: Context, call_next: CallNext) -> object:
                seen.append(f"{name} {len(ctx.jobs)} {threading.get_ident()}")
                return [name, call_next()]

            async def asynchronous(ctx: Context, call_next: AsyncCallNext) -> object:
                seen.append(f"{name} {id(asyncio.get_running_loop())}")
                return [name, await call_next()]

            return Middleware(sync, asynchronous)

        @jobs.task(middleware=[named("own")])
        def in_a_thread() -> object:
            seen.append(f"handler {threading.get_ident()}")
            return "done"

        jobs.middleware(named("first"))
        jobs.middleware(named("second"))

        @jobs.task(middleware=[named("own")])
        async def on_the_loop(text: str) -> object:
            seen.append(f"handler {id(asyncio.get_running_loop())}")
            return text

        sent = [in_a_thread.enqueue(), on_the_loop.enqueue("done")]
        jobs.drain(concurrency=1)
        assert [jobs.get(job).result for job in sent] == [["first", ["second", ["own", "done"]]]] * 2
        thread, loop = seen[3].split()[1], seen[7].split()[1]
        assert seen[:3] == [f"{name} 1 {thread}" for name in ("first", "second", "own")]
        assert seen[4:7] == [f"{name} {loop}" for name in ("first", "second", "own")]

    def test_a_batch_is_one_call(self, jobs: Rowcall) -> None:
        @jobs.middleware
        def doubled(ctx: Context, call_next: CallNext) -> object:
            results = call_next()
            assert isinstance(results, list)
            assert len(ctx.jobs) == len(results) == 2
            return [2 * one for one in results]

        @jobs.task(batch=2)
        def square(items: list[int]) -> list[int]:
            return [item * item for item in items]

        sent = [square.enqueue(3), square.enqueue(4)]
        jobs.drain()
        assert [jobs.get(job).result for job in sent] == [18, 32]

    def test_it_decides_how_the_attempt_ends(self, jobs: Rowcall) -> None:
        called: list[str] = []

        async def retry(ctx: Context, call_next: AsyncCallNext) -> object:
            try:
                return await call_next()
            except OSError as error:
                raise Retry(600) from error

        async def snooze(ctx: Context, call_next: AsyncCallNext) -> object:
            raise Snooze(600)

        async def answer(ctx: Context, call_next: AsyncCallNext) -> object:
            return "from the cache"

        async def twice(ctx: Context, call_next: AsyncCallNext) -> object:
            await call_next()
            return await call_next()

        async def handler() -> None:
            called.append("")
            raise OSError("gone")

        async def quiet() -> None:
            called.append("")

        names = ["retry", "snooze", "answer", "twice"]
        for name, middleware in zip(names, (retry, snooze, answer, twice), strict=True):
            jobs.task(name=name, max_attempts=1, middleware=[middleware])(quiet if name == "twice" else handler)
        sent = [jobs.enqueue(name) for name in names]
        jobs.drain()
        retried, snoozed, answered, failed = (jobs.get(job) for job in sent)
        assert (retried.status, snoozed.status) == ("failed", "scheduled")  # on its last attempt
        assert snoozed.attempt == 0
        assert (answered.status, answered.result) == ("succeeded", "from the cache")
        assert (failed.status, len(called)) == ("failed", 2)
        assert "twice called call_next twice; an attempt calls its handler once" in (failed.error_detail or "")


class TestEnqueueMiddleware:
    def test_it_changes_jobs_wherever_they_are_enqueued(self, jobs: Rowcall) -> None:
        jobs.enqueue_middleware(add_tenant)

        @jobs.task(tags=["declared"], on="paid")
        def charge(number: int, tenant: str = "") -> None: ...

        @jobs.task
        def first(ctx: Context, tenant: str = "") -> None:
            ctx.continue_with(charge, 4)

        @jobs.task
        async def second(ctx: Context, tenant: str = "") -> None:
            ctx.continue_with("charge", number=5)

        @jobs.middleware
        @around
        def of_tenant(ctx: Context) -> AbstractContextManager[object]:
            return as_tenant(str(ctx.job.payload["tenant"]))

        with as_tenant("acme"):
            sent = [
                charge.enqueue(1),
                charge.using(tags=["given"], priority=3).enqueue(1),
                asyncio.run(charge.aenqueue(1)),
                *charge.enqueue_many([{"number": 2}, charge.using(priority=7).bind(2)]),
                jobs.enqueue("charge", {"number": 3}),
                *jobs.publish("paid", {"number": 3}),
                *jobs.start_chain([charge.bind(1), first.bind()]).steps,
                jobs.enqueue("unknown", {}),
            ]
            second.enqueue()
        jobs.drain()
        stored = {job.id: job for job in jobs.list(limit=50).jobs}
        assert len(stored) == len(sent) + 3  # `second`, and what both handlers continue with
        for job in stored.values():
            assert job.payload["tenant"] == "acme"
            assert "tenant:acme" in job.tags
        assert {job.status for job in stored.values() if job.type != "unknown"} == {"succeeded"}
        assert stored[sent[1].id].tags == ("declared", "given", "tenant:acme")
        assert [job.priority for job in sent[:5]] == [0, 3, 0, 0, 7]
        assert sent[0].payload == stored[sent[0].id].payload

    def test_schedules_that_are_added_and_follow_ups_have_what_it_added(self, jobs: Rowcall, clock: FakeClock) -> None:
        jobs.enqueue_middleware(add_tenant)

        @jobs.schedule(every=60, name="declared")
        @jobs.task
        def digest(tenant: str = "") -> None: ...

        @digest.on_success
        def digested(job: JobOutcome) -> None: ...

        with as_tenant("acme"):
            jobs.add_schedule("added", digest, every=60)
        jobs.drain()
        clock.advance(60)
        jobs.drain()
        ticked = jobs.list(type="digest").jobs
        assert {(job.payload.get("tenant"), job.tags) for job in ticked} == {("acme", ("tenant:acme",)), (None, ())}
        followed = jobs.list(type="digested").jobs
        assert sorted(job.tags for job in followed) == [(), ("tenant:acme",)]
        assert [job.type for job in jobs.list(tag="tenant:acme", status="succeeded").jobs] == ["digested", "digest"]

    def test_jobs_of_one_call_may_become_different(self, jobs: Rowcall) -> None:
        @jobs.enqueue_middleware
        def by_number(call: EnqueueCall) -> None:
            if call.arguments["number"] == 2:
                call.options["queue"] = "second"
                call.options["delay"] = timedelta(hours=1)

        @jobs.task
        def charge(number: int) -> None: ...

        first, second = charge.enqueue_many([{"number": 1}, {"number": 2}])
        third, fourth = charge.enqueue_many([{"number": 1}, {"number": 1}])
        assert [job.queue for job in (first, second, third, fourth)] == ["default", "second", "default", "default"]
        assert [job.status for job in (first, second)] == ["pending", "scheduled"]

    def test_what_it_refuses_or_spoils_is_not_written(self, jobs: Rowcall) -> None:
        @jobs.task
        def charge(number: int) -> None: ...

        @jobs.enqueue_middleware
        def spoil(call: EnqueueCall) -> None:
            match call.arguments["number"]:
                case 1:
                    raise PermissionError("no tenant")
                case 2:
                    call.arguments["number"] = "two"
                case 3:
                    call.options["priority"] = "high"  # type: ignore[typeddict-item]
                case 4:
                    call.options["connection"] = object()

        for number, error, problem in (
            (1, PermissionError, "no tenant"),
            (2, InvalidArguments, "argument 'number': expected `int`, got `str`"),
            (3, InvalidOption, "priority must be a whole number"),
            (4, InvalidOption, "connection cannot be set by an enqueue middleware"),
        ):
            with pytest.raises(error, match=problem):
                charge.enqueue(number)
        assert jobs.list().jobs == []
