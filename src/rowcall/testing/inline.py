"""Run jobs where they are enqueued, before `enqueue` returns."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeVar

from rowcall.app import Rowcall, queue_of
from rowcall.base.effects import Effect
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.drivers.transaction_block import innermost_block
from rowcall.operations.effects import Read
from rowcall.operations.inspect import get
from rowcall.queue import Operation, Queue
from rowcall.store.queries.claims import EVERY_QUEUE, FIND_WORK

T = TypeVar("T")


@contextmanager
def inline(*apps: Rowcall) -> Iterator[None]:
    """Run jobs as soon as they are enqueued, inside `clean_queue`. What a handler raises, `enqueue` raises.

        with clean_queue(jobs), inline(jobs):
            assert double.enqueue(21).result == 42

    A job with a delay runs when the clock is moved there. The jobs of a `jobs.transaction()` run at its end.
    """
    for jobs in apps:
        if not queue_of(jobs).is_swapped:
            raise InvalidOption("apps", f"{jobs!r} uses its own database: use inline inside clean_queue")
    with ExitStack() as stack:
        for jobs in apps:
            drain, adrain = partial(jobs.drain, raise_errors=True), partial(jobs.adrain, raise_errors=True)
            stack.enter_context(Inline(queue_of(jobs), drain, adrain).on())
        yield


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
        (work,) = yield from Read(self._queue.dialect.ask(FIND_WORK, "", *EVERY_QUEUE))
        runnable = {task for _, task in work.ready} & self._queue.declared.tasks.keys()
        return bool(runnable) or (work.next_at_ms is not None and work.next_at_ms <= work.now_ms)

    def _read_again(self, result: T) -> Operation[T]:
        if isinstance(result, list):  # of jobs, if it is what was enqueued
            for position, job in enumerate(result):
                result[position] = (yield from get(self._queue, job)) if isinstance(job, Job) else job
        if isinstance(result, Job):
            return (yield from get(self._queue, result))  # type: ignore[return-value]
        return result
