"""Dependencies: made for each attempt or each worker, and removed before the attempt is settled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated

from rowcall import INJECTED, Context, Depends, Retry, Rowcall

seen: list[str] = []


def plain() -> str:
    seen.append("plain")
    return "plain"


async def awaited() -> str:
    await asyncio.sleep(0)
    return "awaited"


def opened(ctx: Context, inner: Annotated[str, Depends(plain)]) -> Iterator[str]:
    seen.append(f"open {ctx.job.type}")
    try:
        yield f"opened {inner}"
    finally:
        seen.append(f"close {ctx.job.type}")


@contextmanager
def managed(inner: Annotated[str, Depends(plain)]) -> Iterator[str]:
    yield f"managed {inner}"
    seen.append("left")


async def opened_async(inner: Annotated[str, Depends(awaited)]) -> AsyncIterator[str]:
    yield f"opened {inner}"
    await asyncio.sleep(0)
    seen.append("closed")


@asynccontextmanager
async def managed_async() -> AsyncIterator[str]:
    async with asyncio.timeout(None):  # must be left in the task that entered it
        yield "managed"


class Client:
    def __init__(self, inner: Annotated[str, Depends(plain)]) -> None:
        self.inner = inner

    def __enter__(self) -> Client:
        seen.append("enter")
        return self

    def __exit__(self, *error: object) -> None:
        seen.append("exit")


def thread_of_worker() -> Iterator[list[int]]:
    yield [threading.get_ident()]
    seen.append("worker ends")


async def loop_of_worker(thread: Annotated[list[int], Depends(thread_of_worker, scope="worker")]) -> AsyncIterator[int]:
    assert thread
    yield id(asyncio.get_running_loop())
    seen.append("loop ends")


def cannot_commit() -> Iterator[None]:
    yield
    raise OSError("could not commit")


def catching() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        seen.append(type(error).__name__)


async def catching_async() -> AsyncIterator[None]:
    try:
        yield
    except Exception as error:
        seen.append(type(error).__name__)


class TestDependencies:
    def test_of_sync_handlers(self, jobs: Rowcall) -> None:
        seen.clear()

        @jobs.task
        def in_a_thread(
            number: int,
            first: Annotated[str, Depends(opened)] = INJECTED,
            second: Annotated[str, Depends(managed)] = INJECTED,
            *,
            client: Annotated[Client, Depends(Client)] = INJECTED,
        ) -> list[object]:
            seen.append("handler")
            return [number, first, second, client.inner]

        job = in_a_thread.enqueue(7)
        assert job.payload == {"number": 7}
        jobs.drain()
        assert jobs.get(job).result == [7, "opened plain", "managed plain", "plain"]
        expected = ["plain", "open in_a_thread", "enter", "handler", "exit", "left", "close in_a_thread"]
        assert seen == expected  # `plain` once

    def test_of_async_handlers(self, jobs: Rowcall) -> None:
        seen.clear()

        @jobs.task
        async def on_the_loop(
            ctx: Context,
            first: Annotated[str, Depends(opened_async)],
            number: int,
            second: Annotated[str, Depends(managed_async)],
            third: Annotated[str, Depends(opened)],
            fourth: Annotated[str, Depends(awaited)],
        ) -> list[object]:
            return [ctx.job.id, number, first, second, third, fourth]

        job = jobs.enqueue("on_the_loop", {"number": 7})
        jobs.drain()
        assert jobs.get(job).result == [job.id, 7, "opened awaited", "managed", "opened plain", "awaited"]
        assert seen == ["plain", "open on_the_loop", "close on_the_loop", "closed"]

    def test_of_batches(self, jobs: Rowcall) -> None:
        seen.clear()

        @jobs.task(batch=2)
        def square(items: list[int], first: Annotated[str, Depends(plain)]) -> list[str]:
            return [f"{first} {item}" for item in items]

        sent = [square.enqueue(3), square.enqueue(4)]
        jobs.drain()
        assert [jobs.get(job).result for job in sent] == ["plain 3", "plain 4"]
        assert seen == ["plain"]

    def test_of_workers(self, jobs: Rowcall) -> None:
        seen.clear()

        @jobs.task
        async def on_the_loop(loop: Annotated[int, Depends(loop_of_worker, scope="worker")] = INJECTED) -> bool:
            return loop == id(asyncio.get_running_loop())

        @jobs.task
        def in_a_thread(
            loop: Annotated[int, Depends(loop_of_worker, scope="worker")] = INJECTED,
            thread: Annotated[list[int], Depends(thread_of_worker, scope="worker")] = INJECTED,
        ) -> bool:
            thread.append(loop)
            return len(thread) == 2

        sent = [on_the_loop.enqueue(), on_the_loop.enqueue(), in_a_thread.enqueue()]
        jobs.drain()
        assert [jobs.get(job).result for job in sent] == [True, True, True]
        assert seen == ["loop ends", "worker ends"]

    def test_teardown_comes_before_the_settle_and_may_fail_the_attempt(self, jobs: Rowcall) -> None:
        @jobs.task(max_attempts=1)
        def charge(commit: Annotated[None, Depends(cannot_commit)]) -> str:
            return "done"

        job = jobs.enqueue("charge")
        jobs.drain()
        assert (jobs.get(job).status, jobs.get(job).error_detail) == ("failed", "could not commit")

    def test_it_sees_how_the_handler_ends_and_cannot_hide_it(self, jobs: Rowcall) -> None:
        seen.clear()

        @jobs.task
        async def retries(one: Annotated[None, Depends(catching_async)]) -> None:
            raise Retry(600)

        @jobs.task(max_attempts=1)
        def fails(one: Annotated[None, Depends(catching)]) -> None:
            raise ZeroDivisionError("by zero")

        sent = [jobs.enqueue("retries"), jobs.enqueue("fails")]
        jobs.drain(concurrency=1)
        assert [jobs.get(job).status for job in sent] == ["scheduled", "failed"]
        assert jobs.get(sent[1]).error_detail == "by zero"
        assert seen == ["Retry", "ZeroDivisionError"]
