"""Reading jobs, their history, and who works on them."""

from __future__ import annotations

import builtins
import reprlib

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Attempt, BlockedBy, Chain, Event, Job, Page, Status, WorkerInfo
from rowcall.domain.names import name_problem
from rowcall.queue import Queue
from rowcall.store.dialect import Filter
from rowcall.store.jobs import inspect
from rowcall.store.jobs.queries import WORKERS


class Looking(Queue):
    def get(self, job_id: int) -> Job:
        """The job as it is now, large payloads included; `JobNotFound` if there is none."""
        return self.blobs.shown(self.read(inspect.get(self.dialect, checked_id(job_id))))

    async def aget(self, job_id: int) -> Job:
        return await self.blobs.ashown(await self.aread(inspect.get(self.dialect, checked_id(job_id))))

    def list(
        self,
        *,
        status: str | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """One page of jobs, newest first. Pass `next_cursor` as `cursor` for the page after it.

        In place of a large payload or result it has the reference that is in the row.

        >>> page = jobs.list(status="failed", limit=100)  # doctest: +SKIP
        """
        wanted = _filter(status, queue, type, tag, limit, cursor)
        return self.read_together(lambda: inspect.list_jobs(self.dialect, wanted))

    async def alist(
        self,
        *,
        status: str | None = None,
        queue: str | None = None,
        type: str | None = None,
        tag: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        wanted = _filter(status, queue, type, tag, limit, cursor)
        return await self.aread_together(lambda: inspect.list_jobs(self.dialect, wanted))

    def attempts(self, job_id: int) -> builtins.list[Attempt]:
        """Every attempt at the job, first to last."""
        return self.read(inspect.attempts(self.dialect, checked_id(job_id)))

    async def aattempts(self, job_id: int) -> builtins.list[Attempt]:
        return await self.aread(inspect.attempts(self.dialect, checked_id(job_id)))

    def timeline(self, job_id: int) -> builtins.list[Event]:
        """All that happened to the job, in order."""
        return self.read(inspect.timeline(self.dialect, checked_id(job_id)))

    async def atimeline(self, job_id: int) -> builtins.list[Event]:
        return await self.aread(inspect.timeline(self.dialect, checked_id(job_id)))

    def blockers(self, job_id: int) -> builtins.list[BlockedBy]:
        """What the job waits for, or waited for, in the order of `after`."""
        return self.read_together(lambda: inspect.blockers(self.dialect, checked_id(job_id)))

    async def ablockers(self, job_id: int) -> builtins.list[BlockedBy]:
        return await self.aread_together(lambda: inspect.blockers(self.dialect, checked_id(job_id)))

    def workers(self) -> builtins.list[WorkerInfo]:
        """The worker processes that are registered now."""
        return self.read(self.dialect.ask(WORKERS))

    async def aworkers(self) -> builtins.list[WorkerInfo]:
        return await self.aread(self.dialect.ask(WORKERS))


def stored_job(core: Queue, job_id: int) -> Job:
    """Return the job as its row has it: a large payload is the reference to it."""
    return core.read(inspect.get(core.dialect, checked_id(job_id)))


def checked_id(job_id: object) -> int:
    if isinstance(job_id, Job | Chain):
        name = type(job_id).__name__
        raise InvalidOption("job_id", f"wants the id of a job, not a {name}: pass {name.lower()}.id")
    if isinstance(job_id, bool) or not isinstance(job_id, int) or not 0 < job_id < 2**63:
        raise InvalidOption("job_id", f"wants the id of a job, not {reprlib.repr(job_id)}")
    return job_id


def _filter(
    status: str | None,
    queue: str | None,
    kind: str | None,
    tag: str | None,
    limit: int,
    cursor: str | None,
) -> Filter:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= inspect.LONGEST_PAGE:
        raise InvalidOption("limit", f"wants a whole number from 1 to {inspect.LONGEST_PAGE}, not {limit!r}")
    if status is not None and status not in list(Status):
        raise InvalidOption("status", f"wants one of {', '.join(Status)}, not {status!r}")
    for option, name in (("queue", queue), ("type", kind), ("tag", tag)):
        if name is not None and (problem := name_problem(name)):
            raise InvalidOption(option, problem)
    return Filter(
        status=None if status is None else Status(status),
        queue=queue,
        type=kind,
        tag=tag,
        before_id=None if cursor is None else inspect.id_of_cursor(cursor),
        limit=limit,
    )
