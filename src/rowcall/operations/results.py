"""Wait for the end of a job, and return what its handler returned."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import Future
from datetime import timedelta

from rowcall.base.clock import Clock
from rowcall.domain.errors import JobCancelled, JobFailed, seconds_of
from rowcall.domain.job import FINISHED, Chain, Job, Status
from rowcall.operations import blobs
from rowcall.operations.arguments import checked_chain_id, checked_id
from rowcall.operations.end_waiter import EndWaiter
from rowcall.operations.steps import Read
from rowcall.queue import Operation, Queue, Step
from rowcall.store.flows import chains
from rowcall.store.jobs import inspect
from rowcall.store.statement import Plan


def result(queue: Queue, job: Job | Chain | int, timeout: float | timedelta | None) -> Operation[object]:
    deadline = Deadline(queue.clock, timeout)
    while (found := (yield from Read(_current(queue, job), snapshot=True))).status not in FINISHED:
        seconds = deadline.remaining(found)
        with end_waiter(queue).waiting(found.id) as end:
            if not (yield from WaitFor(end, seconds)):
                deadline.is_over = True
    return _result_of((yield from blobs.resolve(queue, found)))


class WaitFor(Step[bool]):
    """Wait for a future, at most so long; return whether it is done."""

    __slots__ = ("_future", "_seconds")

    def __init__(self, future: Future[None], seconds: float | None) -> None:
        self._future = future
        self._seconds = seconds

    def run(self, queue: Queue) -> bool:
        try:
            self._future.result(self._seconds)
        except TimeoutError:
            return False
        return True

    async def arun(self, queue: Queue) -> bool:
        try:
            await queue.clock.within(asyncio.wrap_future(self._future), self._seconds)
        except TimeoutError:
            return False
        return True


class Deadline:
    """How much longer to wait. When it is over, the job is read once more."""

    def __init__(self, clock: Clock, timeout: float | timedelta | None) -> None:
        self._clock = clock
        self._seconds = None if timeout is None else seconds_of("timeout", timeout)
        self._at = None if self._seconds is None else clock.timer() + self._seconds
        self.is_over = self._seconds == 0

    def remaining(self, job: Job) -> float | None:
        if self.is_over:
            raise TimeoutError(f"job {job.id} has not ended within {self._seconds:g} s: it is {job.status}")
        return None if self._at is None else max(0.0, self._at - self._clock.timer())


def _current(queue: Queue, job: Job | Chain | int) -> Plan[Job]:
    """Read the job whose end is waited for: of a chain, its last step."""
    if isinstance(job, Chain):
        return chains.awaited(queue.dialect, checked_chain_id(job))
    return inspect.get(queue.dialect, checked_id(job))


def _result_of(job: Job) -> object:
    match job.status:
        case Status.SUCCEEDED:
            return job.result
        case Status.CANCELLED:
            raise JobCancelled(job.id, job.error_detail)
        case _:
            raise JobFailed(job.id, job.error_code or "", job.error_detail)


def end_waiter(queue: Queue) -> EndWaiter:
    """Return what all who wait in this process share; made at the first use."""
    with queue.database.setup_lock:
        waiter = queue.end_waiter
        if not isinstance(waiter, EndWaiter) or waiter.pid != os.getpid():  # its thread is the parent's
            waiter = queue.end_waiter = EndWaiter(queue)
        return waiter
