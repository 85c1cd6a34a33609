"""Await work that must not be cancelled: let it end, and only then raise the cancellation in the task."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
Future = asyncio.Future[Any]

LOCK_PATIENCE_SECONDS = 5.0
"""How long a statement on a server may wait for a lock after its task was cancelled."""


async def finish(
    work: Awaitable[T], *, cancelled: Callable[[], None] | None = None, patience_seconds: float | None = None
) -> T:
    """Await `work` to its end, even if this task is cancelled; then raise the cancellation.

    `cancelled` is called once, when the task is cancelled. `patience_seconds` later, `work` itself is cancelled.

    `work` runs in this task, so that `asyncio.current_task()` and context variables stay the same, and an event loop
    that cancels all tasks when it closes does not cut `work` off either. `work` must not use `asyncio.timeout`, which
    cancels the task that it is in.
    """
    task = asyncio.current_task()
    assert task is not None
    # a task that cancels itself gets the cancellation at its next suspension, which is in here
    before = task.cancelling() - int(getattr(task, "_must_cancel", False))
    driver = _Driver(cancelled, patience_seconds)
    try:
        return await driver.drive(work.__await__())
    finally:
        if driver.timer is not None:
            driver.timer.cancel()
        if driver.cancellation is not None and task.cancelling() > before:
            raise driver.cancellation


async def finish_in_thread(step: Callable[[], T], *, cancelled: Callable[[], None] | None = None) -> T:
    """Run a step in a new thread and `finish` it: the threads of the event loop may all be busy, or have ended."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="rowcall-step")
    try:
        return await finish(asyncio.get_running_loop().run_in_executor(thread, step), cancelled=cancelled)
    finally:
        thread.shutdown(wait=False)


class _Driver:
    def __init__(self, cancelled: Callable[[], None] | None, patience_seconds: float | None) -> None:
        self._cancelled = cancelled
        self._patience_seconds = patience_seconds
        self._future: Future | None = None
        self._is_cancelled = False
        self.cancellation: asyncio.CancelledError | None = None
        self.timer: asyncio.TimerHandle | None = None

    @types.coroutine
    def drive(self, work: Generator[Any, Any, T]) -> Generator[Any, None, T]:
        while True:
            try:
                future = self._future = work.send(None)
            except StopIteration as stop:
                result: T = stop.value
                return result
            try:
                yield None if future is None else _Wait(future, self)
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                # `work` learns from the future how it ended; only a cancellation of the task arrives here
                if isinstance(error, asyncio.CancelledError) and (future is None or not future.cancelled()):
                    self.cancellation = error

    def cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_cancelled:
            return
        self._is_cancelled = True
        if self._cancelled is not None:
            self._cancelled()
        if self._patience_seconds is not None:
            self.timer = loop.call_later(self._patience_seconds, self._give_up, loop)

    def _give_up(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._future is None or not self._future.cancel():  # `work` is about to await its next future
            self.timer = loop.call_later(0, self._give_up, loop)


class _Wait:
    """What a task awaits instead of a future; it has every method that a task calls.

    `cancel` refuses, so that a cancelled task receives the cancellation when the future is done.
    """

    def __init__(self, future: Future, driver: _Driver) -> None:
        self._future = future
        self._driver = driver
        self._asyncio_future_blocking = True
        future._asyncio_future_blocking = False

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._future.get_loop()

    def add_done_callback(self, callback: Callable[[Future], object], *, context: Any = None) -> None:
        self._future.add_done_callback(callback, context=context)

    def cancel(self, msg: object = None) -> bool:
        self._driver.cancel(self._future.get_loop())
        return False

    def cancelled(self) -> bool:
        return self._future.cancelled()
