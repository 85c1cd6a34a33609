"""Jobs that wait for others: what the end of a blocker changes for them, and for the jobs that wait for those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rowcall.domain.job import FINISHED, Status
from rowcall.domain.lifecycle import Move, target
from rowcall.domain.outcome import BLOCKER_CANCELLED_CODE, BLOCKER_FAILED_CODE
from rowcall.store.counts.tallies import broken
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.marks import retag
from rowcall.store.order.heads import pass_order
from rowcall.store.queries import flows as queries
from rowcall.store.queries.counts import TALLY
from rowcall.store.queries.flows import BlockedEnd, EndedEdge, Touched, UnsureEdge
from rowcall.store.results.waiting import notify_waiters
from rowcall.store.statement import Plan

CHECKED_AT_ONCE = 500
REPAIRED_AT_ONCE = 500
GONE_CODE = "JOB:DELETED"
_CODES = {Move.BREAK: BLOCKER_FAILED_CODE, Move.CANCEL: BLOCKER_CANCELLED_CODE}


class Changed(NamedTuple):
    """Jobs that a transaction has ended, and jobs that it has unblocked."""

    ended: list[int]
    unblocked: list[int]


def resolve_ended(dialect: Dialect, changed: Changed, now_ms: int | None, *, skip_locked: bool = False) -> Plan[bool]:
    """Resolve the edges of jobs that have ended, and add what changes. Return whether that made any job ready."""
    (edges,) = yield from dialect.ask(queries.ENDED_EDGES, sorted(changed.ended))
    return (yield from _resolve(dialect, edges, now_ms, changed, skip_locked=skip_locked))


def resolve(
    dialect: Dialect, edges: Sequence[EndedEdge], now_ms: int | None, *, skip_locked: bool = False
) -> Plan[bool]:
    """Resolve edges whose blockers have ended, and notify the waiters of the jobs that change."""
    changed = Changed([], [])
    any_ready = yield from _resolve(dialect, edges, now_ms, changed, skip_locked=skip_locked)
    if any(changed):
        yield from notify_waiters(dialect, *changed)
    return any_ready


def _resolve(
    dialect: Dialect, edges: Sequence[EndedEdge], now_ms: int | None, changed: Changed, *, skip_locked: bool
) -> Plan[bool]:
    """Resolve edges whose blockers have ended, and the edges of jobs that end because of it.

    `skip_locked`: leave edges of jobs that other transactions have locked for a later check. A transaction of a caller
    may lock them for long.
    """
    while edges:
        edges = yield from _lock(dialect, edges, skip_locked=skip_locked)
        passing = [edge for edge in edges if edge.status == Status.SUCCEEDED or edge.on_failure == "run"]
        breaking = [edge for edge in edges if edge.status != Status.SUCCEEDED and edge.on_failure == "fail"]
        if passing:
            yield from dialect.ask(queries.SETTLE_EDGES, now_ms, Status.SUCCEEDED, passing)
        if breaking:
            yield from dialect.ask(queries.SETTLE_EDGES, now_ms, Status.FAILED, breaking)
        ended = yield from _break(dialect, breaking, now_ms)
        changed.ended.extend(ended)
        yield from pass_order(dialect, ended)
        if passing:
            changed.unblocked.extend((yield from unblock(dialect, sorted({edge.job_id for edge in passing}), now_ms)))
        edges = (yield from dialect.ask(queries.ENDED_EDGES, sorted(ended)))[0] if ended else []
    return bool(changed.unblocked)


def _lock(dialect: Dialect, edges: Sequence[EndedEdge], *, skip_locked: bool) -> Plan[Sequence[EndedEdge]]:
    """Lock the jobs that wait, before their edges, in the order of a delete; return the edges to resolve."""
    concerned = [edge for edge in edges if _is_resolved_by(edge)]
    job_ids = sorted({edge.job_id for edge in concerned})
    if dialect.one_writer or not job_ids:
        return concerned
    if not skip_locked:
        yield from dialect.ask(queries.LOCK_BLOCKED, job_ids)
        return concerned
    locked = yield from dialect.ask(queries.LOCK_FREE_BLOCKED, job_ids)
    busy = {*(yield from dialect.ask(queries.STILL_BLOCKED, job_ids))}.difference(locked)
    if busy:
        yield from dialect.ask(queries.DOUBT_LOCKED, [edge for edge in concerned if edge.job_id in busy])
    return [edge for edge in concerned if edge.job_id not in busy]


def _is_resolved_by(edge: EndedEdge) -> bool:
    """Return whether the end of the blocker resolves the edge; otherwise it waits for a retry of the blocker."""
    return edge.status == Status.SUCCEEDED or edge.on_failure != "wait"


def unblock(dialect: Dialect, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[int]]:
    """Make blocked jobs without an open edge ready, after all ready jobs; return their ids."""
    ready = yield from dialect.ask(queries.UNBLOCK, now_ms, job_ids)
    if ready:
        yield from dialect.ask(queries.PASS_TURN)
        yield from retag(dialect, ready)
    return ready


def end_blocked(dialect: Dialect, ends: Sequence[BlockedEnd], now_ms: int | None) -> Plan[list[Touched]]:
    """End jobs that are still blocked; return them."""
    touched = yield from dialect.ask(queries.END_BLOCKED, now_ms, {end.job_id: end for end in ends})
    yield from retag(dialect, [job.id for job in touched])
    return touched


def block_again(dialect: Dialect, job_ids: Sequence[int], now_ms: int | None) -> Plan[None]:
    """Block jobs that are to run again, if they failed with a blocker that has not succeeded since."""
    yield from dialect.ask(queries.REOPEN_EDGES, job_ids)
    yield from dialect.ask(queries.FORGIVE_EDGES, now_ms, job_ids)
    yield from dialect.ask(queries.REBLOCK, job_ids)
    yield from retag(dialect, job_ids)


def _break(dialect: Dialect, edges: Sequence[EndedEdge], now_ms: int | None) -> Plan[list[int]]:
    """End the jobs that can no longer run; return the ids of the jobs that were still blocked."""
    ended: list[int] = []
    by_move: dict[Move, dict[int, BlockedEnd]] = {Move.BREAK: {}, Move.CANCEL: {}}
    for edge in edges:
        move = Move.CANCEL if edge.status == Status.CANCELLED else Move.BREAK
        by_move[move].setdefault(edge.job_id, _end_of(edge, move))
    for move, ends in by_move.items():
        if ends:
            touched = yield from end_blocked(dialect, list(ends.values()), now_ms)
            if touched:
                tallies = broken(touched, target(Status.BLOCKED, move), _CODES[move])
                yield from dialect.ask(TALLY, now_ms, tallies)
            ended += [job.id for job in touched]
    return ended


def _end_of(edge: EndedEdge, move: Move) -> BlockedEnd:
    what = "chain" if edge.of_chain else "job"
    why = f" with {edge.error_code}" if edge.error_code else ""
    how = "was cancelled" if move is Move.CANCEL else "failed"
    detail = f"{what} {edge.blocker_id} {how}{why}"
    return BlockedEnd(edge.job_id, target(Status.BLOCKED, move), _CODES[move], detail)


def check_unsure_edges(dialect: Dialect, now_ms: int | None) -> Plan[bool]:
    """Check edges that were written while another transaction may have settled the blocker.

    Return whether that made any job ready. Jobs and blockers that are locked now are left for the next check.
    """
    edges = yield from dialect.ask(queries.UNSURE_EDGES, CHECKED_AT_ONCE)
    if not edges:
        return False
    chains = sorted({edge.blocker_id for edge in edges if edge.of_chain})
    last = dict((yield from dialect.ask(queries.LAST_STEPS, chains)) if chains else ())
    wanted = sorted({_blocker_of(edge, last) for edge in edges})
    locked = dict((yield from dialect.ask(queries.LOCK_BLOCKERS, wanted)))
    existing = set((yield from dialect.ask(queries.EXISTING_BLOCKERS, wanted)))
    # a step may have been added before its predecessor was locked
    same = dict((yield from dialect.ask(queries.LAST_STEPS, chains)) if chains else ())
    ended, sure = [], []
    for edge in edges:
        job_id = _blocker_of(edge, last)
        if job_id not in existing:
            ended.append(gone(edge))
        elif job_id in locked and (not edge.of_chain or same.get(edge.blocker_id) == last.get(edge.blocker_id)):
            found = EndedEdge(edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, *locked[job_id])
            if found.status in FINISHED and _is_resolved_by(found):
                ended.append(found)
            else:
                sure.append(edge)
    any_ready = yield from resolve(dialect, ended, now_ms, skip_locked=True)
    if sure:  # after the waiting jobs were locked: edges come last
        yield from dialect.ask(queries.TRUST_EDGES, sure)
    return any_ready


def repair_edges(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """Resolve edges that no settle resolved: the blocker has ended or was deleted by plain SQL. Return how many.

    It reads all open edges, so it runs rarely.
    """
    (edges,) = yield from dialect.ask(queries.FORGOTTEN_EDGES, GONE_CODE, REPAIRED_AT_ONCE)
    if edges:
        yield from resolve(dialect, edges, now_ms, skip_locked=True)
    return len(edges)


def _blocker_of(edge: UnsureEdge, last_steps: dict[int, int]) -> int:
    return last_steps.get(edge.blocker_id, edge.blocker_id) if edge.of_chain else edge.blocker_id


def gone(edge: UnsureEdge) -> EndedEdge:
    """Return the end of an edge whose blocker was deleted: it can never be retried."""
    on_failure = "fail" if edge.on_failure == "wait" else edge.on_failure
    return EndedEdge(edge.blocker_id, edge.of_chain, edge.job_id, on_failure, Status.FAILED, GONE_CODE)
