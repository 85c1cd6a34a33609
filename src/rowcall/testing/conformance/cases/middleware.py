"""Middleware around attempts: in threads, on the event loop and in batches."""

from __future__ import annotations

import asyncio
import threading

from rowcall import Context, Retry, Rowcall, Snooze
from rowcall.middleware import AsyncCallNext, CallNext, Middleware


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
