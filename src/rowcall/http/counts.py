"""Counts that take long: all readers share them, and they are counted again in the background."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from rowcall.domain.job import Counts, Retries
from rowcall.operations.effects import reading_within
from rowcall.operations.stats import count_jobs, retries
from rowcall.queue import Operation, Queue

T = TypeVar("T")

SLOW_SECONDS = 0.05
REUSED_FOR, LONGEST_REUSE_SECONDS = 20, 20.0
"""How often as long as it took to count, counts are fresh: counting takes a twentieth of the time."""
QUICK_SECONDS = 0.1
OLDEST_SECONDS = 60.0
KEPT_SECONDS = 600.0
COUNT_SECONDS = 5.0


class StillCounting(TimeoutError):
    """Nothing has been counted yet."""


class Shared(Generic[T]):
    """The latest answer to a question.

    If it takes long to answer, the answer is reused for a while. Then readers get it once more, while the question is
    asked again. This continues for some minutes after the last reader, so that the next one need not wait.
    """

    def __init__(self, queue: Queue, ask: Callable[[], Operation[T]]) -> None:
        self._queue = queue
        self._ask = ask
        self._timer = queue.clock.monotonic
        self._answer: T | None = None
        self._asked_at = self._fresh_until = self.read_at = -math.inf
        self._changes = 0
        self._asking: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def read(self, seconds: float) -> T:
        """Return the answer, or raise `StillCounting` if there is none within some seconds."""
        self.read_at = now = self._timer()
        if self._answer is not None and now < self._fresh_until:
            return self._answer
        asking = self.ask()
        if (found := await self._wait(asking, QUICK_SECONDS)) is not None:
            return found
        if self._answer is not None and now - self._asked_at < OLDEST_SECONDS:
            return self._answer
        if (found := await self._wait(asking, seconds)) is not None:
            return found
        raise StillCounting

    def forget(self) -> None:
        """Ask again, because something has changed."""
        self._fresh_until = -math.inf
        self._changes += 1

    def ask(self) -> asyncio.Task[T]:
        """Return the task that asks next: after this call, and one at a time."""
        loop = asyncio.get_running_loop()
        if self._next is None or self._next.done() or self._next.get_loop() is not loop:
            self._next = loop.create_task(self._answered())
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._next

    async def _wait(self, asking: asyncio.Task[T], seconds: float) -> T | None:
        with contextlib.suppress(TimeoutError):
            return await self._queue.clock.within(asyncio.shield(asking), seconds)
        return None

    async def _answered(self) -> T:
        await self._queue.aensure_schema()  # which may take longer than to count
        if self._asking is not None and self._asking.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._asking])
        self._asking, self._next = asyncio.current_task(), None
        began, changes = self._timer(), self._changes
        if self._answer is not None and began < self._fresh_until:
            return self._answer
        answer = await self._queue.arun(reading_within(self._ask(), COUNT_SECONDS))
        took = self._timer() - began
        self._answer, self._asked_at = answer, began
        if took >= SLOW_SECONDS and changes == self._changes:
            self._fresh_until = began + took + min(took * REUSED_FOR, LONGEST_REUSE_SECONDS)
            if self._keeping is None or self._keeping.done():
                self._keeping = asyncio.create_task(self._keep())
        return answer

    async def _keep(self) -> None:
        """Ask again whenever the answer is no longer fresh, as long as someone has read it lately."""
        with contextlib.suppress(Exception):  # the next reader asks again, and gets the error
            while (rest := self._fresh_until - self._timer()) > 0:
                await self._queue.clock.asleep(rest)
                if self._timer() - self.read_at > KEPT_SECONDS:
                    return
                await self.ask()


class SharedCounts:
    """What is counted for all readers of one app."""

    def __init__(self, queue: Queue) -> None:
        self.jobs: Shared[Counts] = Shared(queue, lambda: count_jobs(queue))
        self.attempts: Shared[Retries] = Shared(queue, lambda: retries(queue))
        queue.at_close.add(self._end)

    def start(self) -> None:
        """Count for the first reader."""
        for one in (self.jobs, self.attempts):
            one.ask()

    def forget(self) -> None:
        for one in (self.jobs, self.attempts):
            one.forget()

    def _end(self) -> None:
        """Do not count for the next reader: that would open connections again."""
        for one in (self.jobs, self.attempts):
            one.read_at = -math.inf
