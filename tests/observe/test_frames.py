"""The frames of threads and of coroutines that wait."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncIterator, Generator
from types import FrameType, coroutine

import pytest

from rowcall.observe.frames import (
    LONGEST_LINE,
    MOST_FRAMES,
    awaiting,
    awaiting_task,
    executing,
    frame_values,
    frames_of_threads,
)


def held(began: threading.Event, go_on: threading.Event, depth: int) -> None:
    if depth:
        held(began, go_on, depth - 1)
    else:
        began.set()
        go_on.wait()


def caller(began: threading.Event, go_on: threading.Event, depth: int) -> None:
    held(began, go_on, depth)


def test_what_a_thread_executes_below_its_caller() -> None:
    began, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=caller, args=(began, go_on, 400))
    thread.start()
    began.wait()
    ((frame, frames),) = executing((caller.__code__,))
    assert frame.f_locals["depth"] == 400
    found = frame_values(frames, lambda text: text.replace("go_on", "***"))
    go_on.set()
    thread.join()
    assert len(found) == MOST_FRAMES
    assert found[0].function == "held"
    assert [one.code for one in found if one.module == __name__][-1] in ("***.wait()", "held(began, ***, depth - 1)")
    assert max(len(one.code) for one in found) <= LONGEST_LINE


def test_what_coroutines_await() -> None:
    @coroutine
    def old_style(future: asyncio.Future[None]) -> Generator[object, None, None]:
        yield from future

    async def inner(future: asyncio.Future[None]) -> None:
        await old_style(future)

    async def outer(future: asyncio.Future[None]) -> None:
        await asyncio.create_task(inner(future))

    async def numbers(future: asyncio.Future[None]) -> AsyncIterator[int]:
        await future
        yield 1

    async def main() -> list[list[str]]:
        future = asyncio.get_running_loop().create_future()
        task, iterator = asyncio.create_task(outer(future)), numbers(future)
        step = asyncio.ensure_future(anext(iterator))
        for _ in range(3):
            await asyncio.sleep(0)
        found = [awaiting_task(task), awaiting(iterator)]
        future.set_result(None)
        await asyncio.gather(task, step)
        return [[frame.f_code.co_name for frame in frames] for frames in found]

    assert asyncio.run(main()) == [["outer", "inner", "old_style"], ["numbers"]]


def test_no_garbage_is_collected_while_the_frames_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a destructor and a thread that starts could wait for each other for ever."""
    enabled: list[bool] = []

    def read() -> dict[int, FrameType]:
        enabled.append(gc.isenabled())
        return {}

    monkeypatch.setattr(sys, "_current_frames", read)
    assert frames_of_threads() == []
    assert enabled == [False]
    assert gc.isenabled()
