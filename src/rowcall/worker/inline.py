"""Run jobs where they are enqueued, before `enqueue` returns: for tests."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rowcall.base.effects import Effect
from rowcall.domain.job import Job
from rowcall.drivers.transaction_block import innermost_block
from rowcall.operations.effects import Read
from rowcall.operations.inspect import get
from rowcall.queue import Operation, Queue
from rowcall.store.queries.jobs import FIND_WORK

T = TypeVar("T")


class Inline:
    """Replaces the two drivers of operations. `drain` and `adrain` run all jobs that are due."""

    def __init__(self, queue: Queue, drain: Callable[[], object], adrain: Callable[[], Awaitable[object]]) -> None:
        self._queue = queue
        self._drain = drain
        self._adrain = adrain
        self._running = threading.Lock()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Run jobs at once inside the block."""
        before = {name: vars(self._queue).get(name) for name in ("run", "arun")}
        vars(self._queue).update(run=self.run, arun=self.arun)
        try:
            yield
        finally:
            for name, function in before.items():
                if function is None:
                    vars(self._queue).pop(name, None)
                else:
                    vars(self._queue)[name] = function

    def run(self, operation: Operation[T] | Effect[Queue, T]) -> T:
        result = Queue.run(self._queue, operation)
        has_run = False
        while self._may_run() and Queue.run(self._queue, self._any_ready()) and self._running.acquire(blocking=False):
            try:
                self._drain()
            finally:
                self._running.release()
            has_run = True
        return Queue.run(self._queue, self._read_again(result)) if has_run else result

    async def arun(self, operation: Operation[T] | Effect[Queue, T]) -> T:
        result = await Queue.arun(self._queue, operation)
        has_run = False
        while (
            self._may_run()
            and await Queue.arun(self._queue, self._any_ready())
            and self._running.acquire(blocking=False)
        ):
            try:
                await self._adrain()
            finally:
                self._running.release()
            has_run = True
        return await Queue.arun(self._queue, self._read_again(result)) if has_run else result

    def _may_run(self) -> bool:
        """Return false inside a handler, whose worker runs the job, and inside a transaction, which is not over."""
        return not self._running.locked() and innermost_block(self._queue.database) is None

    def _any_ready(self) -> Operation[bool]:
        (work,) = yield from Read(self._queue.dialect.ask(FIND_WORK, self._queue.now_ms(), ""))
        runnable = {task for _, task in work.ready} & self._queue.declared.tasks.keys()
        return bool(runnable) or (work.next_at_ms is not None and work.next_at_ms <= work.now_ms)

    def _read_again(self, result: T) -> Operation[T]:
        if isinstance(result, Job):
            return (yield from get(self._queue, result))  # type: ignore[return-value]
        return result
