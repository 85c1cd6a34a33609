"""What came of a job, for those who wait for it."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from typing import TypeVar, overload

from rowcall.domain.errors import JobCancelled, JobFailed, seconds_of
from rowcall.domain.job import FINISHED, Chain, Job, Status
from rowcall.operations.inspect import checked_id
from rowcall.operations.result_waiting import WaitingRoom
from rowcall.queue import Queue
from rowcall.store.flows import chains
from rowcall.store.jobs import inspect
from rowcall.store.statement import Plan

T = TypeVar("T")


class Results(Queue):
    _waiting_room: WaitingRoom | None = None

    @overload
    def result(self, job: Job[T], *, timeout: float | timedelta | None = None) -> T: ...
    @overload
    def result(self, job: Chain | int, *, timeout: float | timedelta | None = None) -> object: ...
    def result(self, job: Job | Chain | int, *, timeout: float | timedelta | None = None) -> object:
        """What the handler returned, once it has; of a chain, what its last step did.

        None as `timeout` waits for as long as it takes.

        `JobFailed` or `JobCancelled` if it ended so, `TimeoutError` if it has not ended in time, `JobNotFound` if there
        is no such job, or none any more.

        >>> jobs.result(thumbnail.enqueue("cat.png"), timeout=30)  # doctest: +SKIP
        """
        patience = Patience(timeout)
        while (found := self.read_together(lambda: self._awaited(job))).status not in FINISHED:
            seconds = patience.remaining(found)
            with self._room().waiting(found.id) as ticket:
                try:
                    ticket.result(seconds)
                except TimeoutError:
                    patience.is_over = True
        return result_of(self.blobs.shown(found))

    @overload
    async def aresult(self, job: Job[T], *, timeout: float | timedelta | None = None) -> T: ...
    @overload
    async def aresult(self, job: Chain | int, *, timeout: float | timedelta | None = None) -> object: ...
    async def aresult(self, job: Job | Chain | int, *, timeout: float | timedelta | None = None) -> object:
        """`result` for async code. Any number may wait at once."""
        patience = Patience(timeout)
        while (found := await self.aread_together(lambda: self._awaited(job))).status not in FINISHED:
            seconds = patience.remaining(found)
            with self._room().waiting(found.id) as ticket:
                try:
                    await asyncio.wait_for(asyncio.wrap_future(ticket), seconds)
                except TimeoutError:
                    patience.is_over = True
        return result_of(await self.blobs.ashown(found))

    def close(self) -> None:
        room, self._waiting_room = self._waiting_room, None
        if room is not None and room.pid == os.getpid():
            room.close()
        super().close()

    def _awaited(self, job: Job | Chain | int) -> Plan[Job]:
        """The job whose end is waited for, as it is now."""
        if isinstance(job, Chain):
            return chains.awaited(self.dialect, checked_id(job.id))
        return inspect.get(self.dialect, checked_id(job.id if isinstance(job, Job) else job))

    def _room(self) -> WaitingRoom:
        with self.database.setup_lock:
            if self._waiting_room is None or self._waiting_room.pid != os.getpid():  # its thread is the parent's
                self._waiting_room = WaitingRoom(self)
            return self._waiting_room


class Patience:
    """How much longer to wait. When it is over, the job is looked at once more."""

    def __init__(self, timeout: float | timedelta | None) -> None:
        self._seconds = None if timeout is None else seconds_of("timeout", timeout)
        self._deadline = None if self._seconds is None else time.monotonic() + self._seconds
        self.is_over = self._seconds == 0

    def remaining(self, job: Job) -> float | None:
        if self.is_over:
            raise TimeoutError(f"job {job.id} has not ended within {self._seconds:g} s: it is {job.status}")
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())


def result_of(job: Job) -> object:
    """What a finished job ended with: the result, or an error that says why there is none."""
    match job.status:
        case Status.SUCCEEDED:
            return job.result
        case Status.CANCELLED:
            raise JobCancelled(job.id, job.error_detail)
        case _:
            raise JobFailed(job.id, job.error_code or "", job.error_detail)
