"""Jobs that wait for others: what the end of a blocker means for them, however far down that goes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowcall.domain.job import FINISHED, Status
from rowcall.domain.lifecycle import BLOCKER_CANCELLED_CODE, BLOCKER_FAILED_CODE, Move, target
from rowcall.store.counts.queries import TALLY
from rowcall.store.counts.tallies import broken
from rowcall.store.dialect import Dialect
from rowcall.store.flows.contract import BlockedEnd, EndedEdge, UnsureEdge
from rowcall.store.statement import Plan

SWEPT_AT_ONCE = 500
MENDED_AT_ONCE = 500
GONE_CODE = "JOB:DELETED"
_CODES = {Move.BREAK: BLOCKER_FAILED_CODE, Move.CANCEL: BLOCKER_CANCELLED_CODE}


def resolve_ended(dialect: Dialect, job_ids: Collection[int], now_ms: int | None) -> Plan[bool]:
    """These jobs have ended: see to those that waited for them. Gives whether that made any ready."""
    return (yield from resolve(dialect, (yield from dialect.ended_edges(job_ids)), now_ms))


def resolve(dialect: Dialect, edges: Sequence[EndedEdge], now_ms: int | None) -> Plan[bool]:
    """See to edges whose blockers have ended, and to those of jobs that end because of it."""
    any_ready = False
    while edges:
        passing = [edge for edge in edges if edge.status == Status.SUCCEEDED or edge.on_failure == "run"]
        breaking = [edge for edge in edges if edge.status != Status.SUCCEEDED and edge.on_failure == "fail"]
        job_ids = sorted({edge.job_id for edge in (*passing, *breaking)})
        if job_ids:  # before their edges, as whoever deletes a job has it
            yield from dialect.lock_blocked(job_ids)
        if passing:
            yield from dialect.settle_edges(passing, "succeeded", now_ms)
        if breaking:
            yield from dialect.settle_edges(breaking, "failed", now_ms)
        ended = yield from _break(dialect, breaking, now_ms)
        if passing:
            any_ready |= bool((yield from dialect.unblock(sorted({edge.job_id for edge in passing}), now_ms)))
        edges = (yield from dialect.ended_edges(ended)) if ended else []
    return any_ready


def _break(dialect: Dialect, edges: Sequence[EndedEdge], now_ms: int | None) -> Plan[list[int]]:
    """End the jobs that cannot run any more; gives which of them were still waiting."""
    ended: list[int] = []
    by_move: dict[Move, dict[int, BlockedEnd]] = {Move.BREAK: {}, Move.CANCEL: {}}
    for edge in edges:
        move = Move.CANCEL if edge.status == Status.CANCELLED else Move.BREAK
        by_move[move].setdefault(edge.job_id, _end_of(edge, move))
    for move, ends in by_move.items():
        if ends:
            touched = yield from dialect.end_blocked(list(ends.values()), now_ms)
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


def sweep(dialect: Dialect, now_ms: int | None) -> Plan[bool]:
    """Look at edges that were written beside somebody who may have settled the blocker; gives whether any got ready.

    Blockers that somebody is at now are left for the next sweep.
    """
    edges = yield from dialect.unsure_edges(SWEPT_AT_ONCE)
    if not edges:
        return False
    chains = sorted({edge.blocker_id for edge in edges if edge.of_chain})
    last = (yield from dialect.last_steps(chains)) if chains else {}
    wanted = sorted({_blocker_of(edge, last) for edge in edges})
    locked = yield from dialect.lock_blockers(wanted)
    existing = yield from dialect.existing(wanted)
    # a step may have been added before its predecessor was locked
    same = (yield from dialect.last_steps(chains)) if chains else {}
    ended, sure = [], []
    for edge in edges:
        job_id = _blocker_of(edge, last)
        if job_id not in existing:
            ended.append(_gone(edge))
        elif job_id in locked and (not edge.of_chain or same.get(edge.blocker_id) == last.get(edge.blocker_id)):
            status, code = locked[job_id]
            if status in FINISHED:
                ended.append(EndedEdge(edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, status, code))
            sure.append(edge)
    any_ready = yield from resolve(dialect, ended, now_ms)
    if sure:  # after what waits was locked: edges come last
        yield from dialect.trust_edges(sure)
    return any_ready


def mend(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """See to edges that nobody will see to any more: the blocker ended, or is gone, unseen by who should have looked.

    It reads all open edges: for now and then. Gives how many there were.
    """
    edges = yield from dialect.forgotten_edges(GONE_CODE, MENDED_AT_ONCE)
    if edges:
        yield from resolve(dialect, edges, now_ms)
    return len(edges)


def _blocker_of(edge: UnsureEdge, last_steps: dict[int, int]) -> int:
    return last_steps.get(edge.blocker_id, edge.blocker_id) if edge.of_chain else edge.blocker_id


def _gone(edge: UnsureEdge) -> EndedEdge:
    """A blocker that is deleted can never be retried: there is nothing to wait for."""
    on_failure = "fail" if edge.on_failure == "wait" else edge.on_failure
    return EndedEdge(edge.blocker_id, edge.of_chain, edge.job_id, on_failure, Status.FAILED, GONE_CODE)
