"""Read jobs, their history, and the workers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal, Protocol, Unpack, overload

from rowcall.actions import JobFilter
from rowcall.domain import checks
from rowcall.domain.job import Attempt, BlockedBy, Chain, Dependent, Event, Job, Page, R, WorkerInfo
from rowcall.operations import blobs
from rowcall.operations.arguments import (
    checked_chain_id,
    checked_filter,
    checked_id,
    checked_limit,
    refuse_payload,
)
from rowcall.operations.effects import Read, joined, read
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import HIGHEST, Order
from rowcall.store.jobs import inspect
from rowcall.store.queries.workers import WORKERS

ALL = 2**62
_TRACE_PARENT = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-", re.ASCII)


def get(queue: Queue, job: Job | int, *, connection: object = None) -> Operation[Job]:
    """Return the current job, large payloads included, or raise `JobNotFound`."""
    found = yield from get_row(queue, job, connection)
    return (yield from blobs.resolve(queue, found))


def get_row(queue: Queue, job: Job | int, connection: object = None) -> Operation[Job]:
    """Return the job as its row has it: a large payload is a reference."""
    connection = yield from joined(queue, connection)
    if connection is None:
        return (yield from Read(inspect.get(queue.dialect, checked_id(job))))
    return (yield from read(queue, connection, inspect.get, checked_id(job)))


def get_rows(queue: Queue, ids: Iterable[int]) -> Operation[list[Job]]:
    """Return those of the jobs that exist, by their ids, as their rows have them."""
    possible = [job_id for job_id in ids if 0 < job_id <= HIGHEST]
    found = yield from Read(inspect.get_all(queue.dialect, possible))
    return [found[job_id] for job_id in sorted(found)]


def type_of(queue: Queue, job: Job | int, connection: object = None) -> Operation[str]:
    """Return the task that the job's values are encrypted for."""
    return job.type if isinstance(job, Job) else (yield from get_row(queue, job, connection)).type


def trace_id(queue: Queue, job: Job | int) -> Operation[str | None]:
    """Return the id of the trace that the job is part of, as 32 hexadecimal digits, or None."""
    context = yield from Read(inspect.trace_context(queue.dialect, checked_id(job)))
    found = _TRACE_PARENT.match(context)
    return None if found is None else found[1]


def list_jobs(
    queue: Queue,
    /,
    *,
    order: Literal["newest", "oldest"] = "newest",
    limit: int = 50,
    cursor: str | None = None,
    connection: object = None,
    **chosen: Unpack[JobFilter],
) -> Operation[Page]:
    """Return one page of the jobs that fit. Pass its `next_cursor` as `cursor` to get the next page.

    Jobs are in the order in which they were enqueued; with `finished_after` or `finished_before`, in the order of
    their ends. A large payload or result is a reference in it; `get` returns the value.

    >>> page = jobs.list(status=["failed", "cancelled"], queue="mail", limit=100)  # doctest: +SKIP
    >>> page = jobs.list(type="charge", payload={"customer": 7}, order="oldest")  # doctest: +SKIP
    """
    return search(queue, order, limit, cursor, connection, chosen)


def search(
    queue: Queue,
    order: str,
    limit: int,
    cursor: str | None,
    connection: object,
    chosen: Mapping[str, object],
    seconds: float = math.inf,
) -> Operation[Page]:
    """Return a page of jobs. A search that takes longer than some seconds ends as a partial page."""
    job_filter = checked_filter(chosen)
    refuse_payload(queue, job_filter)
    by_end = job_filter.finished_after_ms is not None or job_filter.finished_before_ms is not None
    placed = Order(checks.one_of("newest", "oldest")("order", order) == "newest", by_end)
    after = None if cursor is None else inspect.place_of_cursor(cursor, job_filter, placed)
    shown = checked_limit(limit, inspect.LONGEST_PAGE)
    timer = queue.clock.timer
    until = timer() + seconds
    plan = (job_filter, placed, after, shown, lambda: timer() < until)
    return (yield from read(queue, connection, inspect.list_jobs, *plan))


def attempts(queue: Queue, job: Job | int) -> Operation[list[Attempt]]:
    """Return every attempt at the job, first to last."""
    return last_attempts(queue, job, ALL)


def last_attempts(queue: Queue, job: Job | int, limit: int) -> Operation[list[Attempt]]:
    return (yield from Read(inspect.attempts(queue.dialect, checked_id(job), limit)))


def timeline(queue: Queue, job: Job | int) -> Operation[list[Event]]:
    """Return everything that happened to the job, in order."""
    return last_events(queue, job, ALL)


def last_events(queue: Queue, job: Job | int, limit: int) -> Operation[list[Event]]:
    return (yield from Read(inspect.timeline(queue.dialect, checked_id(job), limit)))


def blockers(queue: Queue, job: Job | int) -> Operation[list[BlockedBy]]:
    """Return the jobs and chains that the job waits for, or waited for, in the order of `after`."""
    return (yield from Read(inspect.blockers(queue.dialect, checked_id(job)), snapshot=True))


def dependents(queue: Queue, job: Job | Chain | int, *, limit: int = 100) -> Operation[list[Dependent]]:
    """Return the jobs that wait, or waited, for a job or for its chain, by id; given a `Chain`, only for that.

    >>> [one.id for one in jobs.dependents(job) if one.open]  # doctest: +SKIP
    [8, 9]
    """
    of_chain = isinstance(job, Chain)
    job_id = checked_chain_id(job) if of_chain else checked_id(job)
    most = checked_limit(limit, inspect.LONGEST_PAGE)
    return (yield from Read(inspect.dependents(queue.dialect, job_id, most, of_chain=of_chain), snapshot=True))


def workers(queue: Queue) -> Operation[list[WorkerInfo]]:
    """Return the worker processes that are registered now."""
    return (yield from Read(queue.dialect.ask(WORKERS)))


class GetMethod(Protocol):
    @overload
    def __call__(self, job: Job[R], *, connection: object = None) -> Job[R]: ...
    @overload
    def __call__(self, job: int, *, connection: object = None) -> Job: ...


class AsyncGetMethod(Protocol):
    @overload
    async def __call__(self, job: Job[R], *, connection: object = None) -> Job[R]: ...
    @overload
    async def __call__(self, job: int, *, connection: object = None) -> Job: ...


GetMethods = tuple[GetMethod, AsyncGetMethod]
