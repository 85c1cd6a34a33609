"""Work that is finished although its task is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from rowcall.drivers.uncancellable import finish, finish_in_thread

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    def run_there(story: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(story)

    return run_there


Run = Callable[[Coroutine[Any, Any, None]], None]


async def cancelled(work: Awaitable[object], gate: asyncio.Event, message: str | None = None) -> asyncio.Task[object]:
    """A task that was cancelled while it finishes the work, which continues when the gate opens."""

    async def finished() -> object:
        return await finish(work)

    task = asyncio.create_task(finished())
    await asyncio.sleep(0)
    task.cancel(message)
    await asyncio.sleep(0)
    task.cancel(message)
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    await asyncio.wait([task])
    return task


def test_without_a_cancellation_the_result_or_the_error_is_that_of_the_work(run: Run) -> None:
    async def story() -> None:
        async def fail() -> None:
            await asyncio.sleep(0)
            raise LookupError

        assert await finish(asyncio.sleep(0, "done")) == "done"
        assert await finish_in_thread(lambda: "done") == "done"
        with pytest.raises(LookupError):
            await finish(fail())
        with pytest.raises(ZeroDivisionError):
            await finish_in_thread(lambda: 1 / 0)

    run(story())


def test_the_work_ends_first_and_then_the_cancellation_is_raised(run: Run) -> None:
    async def story() -> None:
        gate, notes = asyncio.Event(), list[str]()

        async def work() -> None:
            await gate.wait()
            await asyncio.sleep(0)
            notes.append("ended")

        task = await cancelled(work(), gate, "with a message")
        assert notes == ["ended"]
        with pytest.raises(asyncio.CancelledError, match="with a message"):
            await task

    run(story())


def test_an_error_of_the_work_is_the_context_of_the_cancellation(run: Run) -> None:
    async def story() -> None:
        gate = asyncio.Event()

        async def work() -> None:
            await gate.wait()
            raise LookupError

        task = await cancelled(work(), gate)
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert isinstance(raised.value.__context__, LookupError)

    run(story())


def test_a_time_limit_is_an_ordinary_time_out_after_the_work(run: Run) -> None:
    async def story() -> None:
        gate, notes = asyncio.Event(), list[str]()

        async def work() -> None:
            await gate.wait()
            notes.append("ended")

        async def limited() -> None:
            async with asyncio.timeout(0.001):
                await finish(work())

        asyncio.get_running_loop().call_later(0.01, gate.set)
        with pytest.raises(TimeoutError):
            await limited()
        assert notes == ["ended"]
        await asyncio.sleep(0)  # nothing of the cancellation is left

    run(story())


def test_a_task_that_cancelled_itself_is_cancelled_after_the_work(run: Run) -> None:
    async def story() -> None:
        notes = list[str]()

        async def work() -> None:
            await asyncio.sleep(0.001)
            notes.append("ended")

        async def cancels_itself() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel("with a message")
            await finish(work())
            notes.append("continued")

        with pytest.raises(asyncio.CancelledError, match="with a message"):
            await asyncio.create_task(cancels_itself())
        assert notes == ["ended"]

    run(story())


def test_a_task_that_was_already_cancelled_is_not_cancelled_again(run: Run) -> None:
    async def story() -> None:
        async def told() -> str:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            return await finish(asyncio.sleep(0, "done"))

        assert await asyncio.create_task(told()) == "done"

    run(story())


def test_work_that_is_cancelled_by_itself_ends_so(run: Run) -> None:
    async def story() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        with pytest.raises(asyncio.CancelledError):
            await finish(future)
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()

    run(story())


def test_work_that_waits_for_too_long_after_a_cancellation_is_cancelled(run: Run) -> None:
    async def story() -> None:
        notes: list[str] = []

        async def work() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                notes.append("cleaned up")
                raise

        task = asyncio.create_task(_finished(work(), notes))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert notes == ["cancelled", "cleaned up"]

    run(story())


async def _finished(work: Awaitable[None], notes: list[str]) -> None:
    await finish(work, cancelled=lambda: notes.append("cancelled"), patience_seconds=0.001)


def test_a_step_in_a_thread_always_happens(run: Run) -> None:
    async def story() -> None:
        gate, notes = threading.Event(), list[str]()

        def step() -> None:
            gate.wait()
            notes.append("ended")

        task = asyncio.create_task(finish_in_thread(step, cancelled=gate.set))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert notes == ["ended"]

    run(story())


def test_work_inside_work_is_finished_too(run: Run) -> None:
    async def story() -> None:
        gate, notes = asyncio.Event(), list[str]()

        async def inner() -> None:
            await gate.wait()
            notes.append("inner")

        async def outer() -> None:
            try:
                await finish(inner())
            finally:
                await asyncio.sleep(0)
                notes.append("outer")

        task = await cancelled(outer(), gate)
        assert task.cancelled()
        assert notes == ["inner", "outer"]

    run(story())


def test_a_coroutine_that_is_closed_closes_the_work() -> None:
    notes: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            notes.append("closed")

    async def story() -> None:
        coroutine = finish(work())
        coroutine.send(None)
        coroutine.close()
        assert notes == ["closed"]

    asyncio.run(story())
