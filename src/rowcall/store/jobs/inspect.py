"""Read jobs: one job, a page of jobs, the history of a job."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from rowcall.domain.errors import InvalidOption, JobNotFound
from rowcall.domain.job import Attempt, BlockedBy, Dependent, Event, Job, Page, Status
from rowcall.store.dialect import HIGHEST, LOWEST, Dialect, Filter, Order, Place
from rowcall.store.jobs.pages import find as find_page
from rowcall.store.queries.claims import (
    BACK_TO_SAVEPOINT,
    LOCK_CLAIMS,
    LOCK_READY_OF,
    RELEASE_SAVEPOINT,
    RUNNING_IDS,
    SAVEPOINT,
)
from rowcall.store.queries.control import LOCK_JOBS
from rowcall.store.queries.ends import DROP_LOCKED_CLAIMS, LOCK_FREE_CLAIMS
from rowcall.store.queries.flows import BLOCKER_RESULTS, DEPENDENTS
from rowcall.store.queries.jobs import ATTEMPTS, GET, TIMELINE, TRACE_CONTEXT
from rowcall.store.statement import Plan

LONGEST_PAGE = 1000
_CURSOR = re.compile(r"(before|after)-((?:-?\d{1,19}\.)?\d{1,19})(?:-([0-9a-f]{8}))?", re.ASCII)
_WORDS = {True: "before", False: "after"}


def find(dialect: Dialect, job_id: int, *, lock: bool = False) -> Plan[Job | None]:
    """Return the job, or None."""
    found = (yield from lock_jobs(dialect, [job_id])) if lock else (yield from dialect.ask(GET, job_id))
    return found[0] if found else None


def get(dialect: Dialect, job_id: int) -> Plan[Job]:
    for job in (yield from dialect.ask(GET, job_id)):
        return job
    raise JobNotFound(job_id)


def trace_context(dialect: Dialect, job_id: int) -> Plan[str]:
    """Return the trace context that the job was enqueued with, or an empty text."""
    for found in (yield from dialect.ask(TRACE_CONTEXT, job_id)):
        return found
    raise JobNotFound(job_id)


def lock(dialect: Dialect, job_id: int) -> Plan[Job]:
    """Return a job that no other transaction changes until this one ends."""
    for job in (yield from lock_jobs(dialect, [job_id])):
        return job
    raise JobNotFound(job_id)


def lock_jobs(dialect: Dialect, job_ids: Sequence[int]) -> Plan[list[Job]]:
    """Return jobs, in the order of their ids, that no other transaction claims or changes until this one ends."""
    claimed = set() if dialect.one_writer else (yield from _lock(dialect, job_ids))
    jobs = yield from get_all(dialect, job_ids)
    if jobless := sorted(claimed - jobs.keys()):  # plain SQL deleted the jobs while the claims were locked here
        yield from dialect.ask(DROP_LOCKED_CLAIMS, jobless)
    return [jobs[job_id] for job_id in sorted(jobs)]


def _lock(dialect: Dialect, job_ids: Sequence[int]) -> Plan[set[int]]:
    """Lock claims, then jobs, then ready rows, as every transaction does that waits for them. Return who is claimed.

    A job may be claimed after its claim was looked for, and that claim may be locked by a transaction that waits for
    the job: then this one releases its locks, and starts again.
    """
    yield from dialect.ask(SAVEPOINT)
    while True:
        locked = set((yield from dialect.ask(LOCK_CLAIMS, job_ids)))
        yield from dialect.ask(LOCK_JOBS, job_ids)
        yield from dialect.ask(LOCK_READY_OF, job_ids)
        late = set((yield from dialect.ask(RUNNING_IDS, job_ids))) - locked
        if not late or late == set((yield from dialect.ask(LOCK_FREE_CLAIMS, sorted(late)))):
            yield from dialect.ask(RELEASE_SAVEPOINT)
            return locked | late
        yield from dialect.ask(BACK_TO_SAVEPOINT)


def list_jobs(
    dialect: Dialect, job_filter: Filter, order: Order, after: Place | None, limit: int, go_on: Callable[[], bool]
) -> Plan[Page]:
    """Return one page. A cursor names the last place seen: jobs that come or finish in between do not move it."""
    found = yield from find_page(dialect, job_filter, order, after, limit, go_on)
    next_cursor = None if found.place is None else _cursor_of(found.place, job_filter, order)
    return Page(jobs=found.jobs, next_cursor=next_cursor, partial=found.is_partial, searched=found.looked_at)


def _cursor_of(place: Place, job_filter: Filter, order: Order) -> str:
    return "-".join([_WORDS[order.newest_first], ".".join(map(str, place)), *_digest_of(job_filter)])


def _digest_of(job_filter: Filter) -> list[str]:
    return [] if job_filter == Filter() else [blake2b(msgspec.json.encode(job_filter), digest_size=4).hexdigest()]


def place_of_cursor(cursor: object, job_filter: Filter, order: Order) -> Place:
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) else None
    place = () if match is None else tuple(map(int, match[2].split(".")))
    if match is None or not all(LOWEST < number < HIGHEST for number in place):
        raise InvalidOption("cursor", f"must be the next_cursor of an earlier page, got {cursor!r}")
    if (match[1], [match[3]] if match[3] else []) != (_WORDS[order.newest_first], _digest_of(job_filter)):
        raise InvalidOption("cursor", f"belongs to another filter or order: pass those of its page too, got {cursor!r}")
    return place


def id_of_cursor(cursor: str) -> int:
    """Return the id that a page of chains ends before."""
    return place_of_cursor(cursor, Filter(), Order())[-1]


def attempts(dialect: Dialect, job_id: int, limit: int) -> Plan[list[Attempt]]:
    """Return the last attempts, in their order."""
    yield from get(dialect, job_id)
    return (yield from dialect.ask(ATTEMPTS, job_id, limit))[::-1]


def blockers(dialect: Dialect, job_id: int) -> Plan[list[BlockedBy]]:
    yield from get(dialect, job_id)
    return [
        BlockedBy(
            id=blocker.blocker_id,
            is_chain=bool(blocker.of_chain),
            status=None if blocker.status is None else Status(blocker.status),
            open=blocker.state == "open",
        )
        for blocker in (yield from dialect.ask(BLOCKER_RESULTS, job_id))
    ]


def dependents(dialect: Dialect, job_id: int, limit: int, *, of_chain: bool) -> Plan[list[Dependent]]:
    """Return who waits for a job and for its chain, or only for the chain that the job began."""
    job = yield from get(dialect, job_id)
    chain_id = job_id if job.chain_id is None else job.chain_id
    edges = yield from dialect.ask(DEPENDENTS, None if of_chain else job_id, chain_id, limit)
    jobs = yield from get_all(dialect, [edge[0] for edge in edges])
    return [
        Dependent(
            id=job_id,
            type=jobs[job_id].type,
            queue=jobs[job_id].queue,
            status=jobs[job_id].status,
            of_chain=bool(chain),
            open=state == "open",
        )
        for job_id, chain, state in edges
        if job_id in jobs
    ]


def timeline(dialect: Dialect, job_id: int, limit: int) -> Plan[list[Event]]:
    """Return the last events, in their order."""
    job = yield from get(dialect, job_id)
    found = (yield from dialect.ask(TIMELINE, job_id, limit))[::-1]
    return [msgspec.structs.replace(event, type=job.type) if event.secret else event for event in found]


def get_all(dialect: Dialect, job_ids: Sequence[int]) -> Plan[dict[int, Job]]:
    """Return the jobs that exist, by id."""
    return {job.id: job for job in (yield from dialect.matching(Filter(), job_ids))}
