"""Counts that take long: all readers share them, and they are counted again in the background."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from rowcall.domain.attention import Finding
from rowcall.domain.errors import StoreUnavailable
from rowcall.domain.job import Counts, Retries
from rowcall.operations.effects import reading_within
from rowcall.operations.stats import count_jobs, count_jobs_in_parts, retries, retries_in_parts
from rowcall.overview.attention.attention_list import attention
from rowcall.overview.attention.queue_waits import QueueWait, queue_waits
from rowcall.queue import Operation, Queue

T = TypeVar("T")

SLOW_SECONDS = 0.05
REUSED_FOR, REUSED_FOR_LONG, LONG_REUSE_SECONDS = 20, 5, 20.0
"""How often as long as it took to count, counts are fresh: counting takes a twentieth of the time, or a sixth if 20
times would be longer than some seconds."""
QUICK_SECONDS = 0.1
OLDEST_SECONDS, OLDEST_FOR = 60.0, 10
"""How old counts may be while they are counted again, and how often as long as it took, in addition."""
KEPT_SECONDS = 600.0
WHOLE_SECONDS, PART_SECONDS = 1.0, 5.0
"""How long a read of all counts, or of a part of them, may take."""


class StillCounting(TimeoutError):
    """Nothing has been counted yet."""


class SharedAnswer(Generic[T]):
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
        self._took = 0.0
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
        if self._answer is None or now - self._asked_at >= OLDEST_SECONDS + OLDEST_FOR * self._took:
            if (answer := await self._wait(asking, max(seconds, QUICK_SECONDS))) is not None:
                return answer
            raise StillCounting
        if self._took < QUICK_SECONDS and (answer := await self._wait(asking, QUICK_SECONDS)) is not None:
            return answer
        return self._answer

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
        await self._queue.backend.aensure_schema()  # which may take longer than to count
        if self._asking is not None and self._asking.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._asking])
        self._asking, self._next = asyncio.current_task(), None
        began, changes = self._timer(), self._changes
        if self._answer is not None and began < self._fresh_until:
            return self._answer
        answer = await self._queue.arun(self._ask())
        took = self._timer() - began
        self._answer, self._asked_at, self._took = answer, began, took
        if took >= SLOW_SECONDS and changes == self._changes:
            self._fresh_until = began + took + min(took * REUSED_FOR, max(took * REUSED_FOR_LONG, LONG_REUSE_SECONDS))
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


def _counted(
    queue: Queue, whole: Callable[[Queue], Operation[T]], in_parts: Callable[[Queue], Operation[T]]
) -> Operation[T]:
    """Count at one moment or, if that would take long, in parts: a long read keeps SQLite from its checkpoints."""
    try:
        return (yield from reading_within(whole(queue), WHOLE_SECONDS))
    except StoreUnavailable:
        return (yield from reading_within(in_parts(queue), PART_SECONDS))


class SharedCounts:
    """What is counted for all readers of one app."""

    def __init__(self, queue: Queue) -> None:
        self.jobs: SharedAnswer[Counts] = SharedAnswer(queue, lambda: _counted(queue, count_jobs, count_jobs_in_parts))
        self.attempts: SharedAnswer[Retries] = SharedAnswer(queue, lambda: _counted(queue, retries, retries_in_parts))
        self.attention: SharedAnswer[list[Finding]] = SharedAnswer(
            queue, lambda: reading_within(attention(queue), PART_SECONDS)
        )
        self.waits: SharedAnswer[dict[str, list[QueueWait]]] = SharedAnswer(
            queue, lambda: reading_within(queue_waits(queue), PART_SECONDS)
        )
        self._all = (self.jobs, self.attempts, self.attention, self.waits)
        queue.backend.at_close.add(self._end)

    def start(self) -> None:
        """Count for the first reader."""
        for one in self._all:
            one.ask()

    def forget(self) -> None:
        for one in self._all:
            one.forget()

    def _end(self) -> None:
        """Do not count for the next reader: that would open connections again."""
        for one in self._all:
            one.read_at = -math.inf
