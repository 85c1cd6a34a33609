"""Jobs that wait for others, and the edges between them. `ends/after.py` resolves edges when a blocker has ended."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.domain.job import Status
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.marks import retag
from rowcall.store.queries import flows as queries
from rowcall.store.queries.flows import EndedEdge, UnsureEdge
from rowcall.store.statement import Plan

GONE_CODE = "JOB:DELETED"


def lock_waiting(dialect: Dialect, edges: Sequence[EndedEdge], *, skip_locked: bool) -> Plan[Sequence[EndedEdge]]:
    """Lock the jobs that wait, before their edges, in the order of a delete; return the edges to resolve.

    `skip_locked`: leave edges of jobs that other transactions have locked for a later check.
    """
    concerned = [edge for edge in edges if is_resolved_by(edge)]
    job_ids = sorted({edge.job_id for edge in concerned})
    if not job_ids:
        return concerned
    if not skip_locked:
        yield from dialect.ask(queries.LOCK_BLOCKED, job_ids)
        return concerned
    locked = yield from dialect.ask(queries.LOCK_FREE_BLOCKED, job_ids)
    if len(locked) == len(job_ids):
        return concerned
    busy = {*(yield from dialect.ask(queries.STILL_BLOCKED, job_ids))}.difference(locked)
    if busy:
        yield from dialect.ask(queries.DOUBT_LOCKED, [edge for edge in concerned if edge.job_id in busy])
    return [edge for edge in concerned if edge.job_id not in busy]


def is_resolved_by(edge: EndedEdge) -> bool:
    """Return whether the end of the blocker resolves the edge; otherwise it waits for a retry of the blocker."""
    return edge.status == Status.SUCCEEDED or edge.on_failure != "wait"


def unblock(dialect: Dialect, job_ids: Sequence[int]) -> Plan[list[int]]:
    """Make blocked jobs without an open edge ready, after all ready jobs; return their ids."""
    ready = yield from dialect.ask(queries.UNBLOCK, job_ids)
    if ready:
        yield from dialect.ask(queries.PASS_TURN)
        yield from retag(dialect, ready)
    return ready


def block_again(dialect: Dialect, job_ids: Sequence[int]) -> Plan[None]:
    """Block jobs that are to run again, if they failed with a blocker that has not succeeded since."""
    yield from dialect.ask(queries.REOPEN_EDGES, job_ids)
    yield from dialect.ask(queries.FORGIVE_EDGES, job_ids)
    yield from dialect.ask(queries.REBLOCK, job_ids)
    yield from retag(dialect, job_ids)


def blocker_of(edge: UnsureEdge, last_steps: dict[int, int]) -> int:
    return last_steps.get(edge.blocker_id, edge.blocker_id) if edge.of_chain else edge.blocker_id


def gone(edge: UnsureEdge) -> EndedEdge:
    """Return the end of an edge whose blocker was deleted: it can never be retried."""
    on_failure = "fail" if edge.on_failure == "wait" else edge.on_failure
    return EndedEdge(edge.blocker_id, edge.of_chain, edge.job_id, on_failure, Status.FAILED, GONE_CODE)
