"""What follows the end of a job or of an attempt. Whatever ends one calls `after_end`, and does none of it by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from rowcall.domain.job import FINISHED, Status
from rowcall.domain.lifecycle import Move, target
from rowcall.domain.outcome import BLOCKER_CANCELLED_CODE, BLOCKER_FAILED_CODE, CANCELLED_BY_HAND_CODE
from rowcall.store.batches.finishing import count_ended, finish_over
from rowcall.store.counts.tallies import broken
from rowcall.store.dialect import Dialect
from rowcall.store.flows.blockers import GONE_CODE, blocker_of, gone, is_resolved_by, lock_waiting, unblock
from rowcall.store.jobs.marks import retag
from rowcall.store.limits.held_jobs import free
from rowcall.store.order.first_in_order import pass_order
from rowcall.store.queries import flows as queries
from rowcall.store.queries.claims import RUNNING_IDS, InUse
from rowcall.store.queries.control import RECORD_EVENTS, REQUEST_CANCEL
from rowcall.store.queries.counts import TALLY, Tally
from rowcall.store.queries.ends import (
    DROP_LOCKED_CLAIMS,
    END_WAITING,
    FOLLOW_UP,
    IN_USE,
    KEEP_BLOBS,
    LEASES,
    LOCK_FREE_CLAIMS,
    LOCK_FREE_JOBS,
)
from rowcall.store.queries.flows import EndedEdge, Touched
from rowcall.store.queries.steps import (
    CHECK_PARENTS,
    CHECK_PARENTS_OF,
    END_CALLS,
    FREE_WAITING,
    KEEP_RESULTS,
    LOST_CHILDREN,
    PARENTS_CHECKED,
    PARENTS_TO_CHECK,
)
from rowcall.store.results.readers import notify_waiters
from rowcall.store.statement import Plan
from rowcall.store.steps.recorded import Woken, wake

CHECKED_AT_ONCE = 500
REPAIRED_AT_ONCE = 500
CANCELLED_AT_ONCE = 500
WITH_PARENT = "its parent does not wait for it any more"
_CODES = {Move.BREAK: BLOCKER_FAILED_CODE, Move.CANCEL: BLOCKER_CANCELLED_CODE}


class Locked(Enum):
    """What to do about blocked jobs that another transaction has locked."""

    WAIT = "wait"
    """Only a worker does: its connections wait for a moment, and then it settles with `SKIP`."""
    SKIP = "skip"
    """Leave them for a later check. A transaction of a caller may lock them for long, and this may be one: it must not
    wait, perhaps without end or for one that waits for it, because of jobs that it does not name."""
    CALLER = "caller"
    """This is a caller's transaction, which may last long, next to other writers: lock no blocked job at all."""


class Changed(NamedTuple):
    """Jobs that a transaction has ended, jobs that it has unblocked, and the batches and parents of ended ones."""

    ended: list[int]
    unblocked: list[int]
    batches: set[int]
    parents: dict[int, Woken]


def after_end(
    dialect: Dialect,
    ended: Collection[int],
    tallies: Sequence[Tally],
    freed: Collection[tuple[int, int | None]] | None = None,
    in_use: InUse | None = None,
    locked: Locked = Locked.WAIT,
    claimed: bool = True,
    followed: bool = False,
) -> Plan[bool]:
    """Do what follows the end of these jobs, or of their attempts. Return whether that made any job ready.

    `freed` are the attempts (ids and leases) whose handlers have ended, with their slots. None where that is not
    known, because a person ended them: then the slots of workers are not freed. `in_use` is read unless it is given.
    `claimed`: whether all of them had a claim. The slot of a claim passes the order on. `followed`: whether any of them
    has a declared follow-up or is in a batch.
    """
    changed = Changed(list(ended), [], set(), {})
    any_ready = False
    if ended:
        any_ready = yield from _write_end(dialect, ended, tallies, changed, claimed=claimed, followed=followed)
        if followed:
            yield from _end_calls(dialect, ended, changed, locked)
    if ended or freed:
        any_ready |= yield from _after(dialect, changed, freed, in_use, locked)
    if changed.batches and locked is not Locked.CALLER:
        any_ready |= yield from finish_over(dialect, changed.batches, wait=locked is Locked.WAIT)
    if any(tally.status == Status.CANCELLED for tally in tallies):
        any_ready |= yield from cancel_children(dialect, sorted(ended))
    if changed.parents:  # last: their ids are lower than those of all rows that are locked before
        any_ready |= yield from wake_parents(dialect, changed.parents)
    return any_ready


def cancel_children(dialect: Dialect, parent_ids: Sequence[int]) -> Plan[bool]:
    """Cancel the children of cancelled parents, and of calls that have lost a `ctx.first`. Return whether any job is
    ready. It waits for no lock: what is left is checked later.
    """
    lost = yield from dialect.ask(LOST_CHILDREN, parent_ids, CANCELLED_AT_ONCE)
    ids = [child.id for child in lost if child.cancel < 1]
    if not ids:
        return False
    claimed = yield from dialect.ask(LOCK_FREE_CLAIMS, ids)
    locked = yield from dialect.ask(LOCK_FREE_JOBS, sorted({*ids}.difference(claimed)))
    waiting = set((yield from dialect.ask(FREE_WAITING, locked))) if locked else set()
    waiting.difference_update((yield from dialect.ask(RUNNING_IDS, ids)))
    if len(lost) == CANCELLED_AT_ONCE or len(claimed) + len(waiting) < len(ids):
        yield from dialect.ask(CHECK_PARENTS, sorted({child.parent_id for child in lost}))
    if claimed and (requested := (yield from dialect.ask(REQUEST_CANCEL, claimed))):
        yield from dialect.ask(RECORD_EVENTS, sorted(requested), "CANCEL_REQUESTED", None, WITH_PARENT)
    if not waiting:
        return False
    yield from dialect.ask(RECORD_EVENTS, sorted(waiting), "CANCELLED", None, WITH_PARENT)
    end = WaitingEnd(target(Status.PENDING, Move.CANCEL), CANCELLED_BY_HAND_CODE)
    ended = yield from end_waiting(dialect, dict.fromkeys(sorted(waiting), WITH_PARENT), end)
    tallies = broken(ended, end.status, end.error_code)
    children = [child.id for child in ended]
    return (yield from after_end(dialect, children, tallies, (), locked=Locked.SKIP, claimed=False, followed=True))


def _end_calls(dialect: Dialect, ended: Collection[int], changed: Changed, locked: Locked) -> Plan[None]:
    """Write the ends of jobs into the steps of their parents. A caller's transaction leaves that to a check."""
    if locked is Locked.CALLER:
        yield from dialect.ask(CHECK_PARENTS_OF, sorted(ended))
        return
    changed.parents.update((yield from _write_calls(dialect, sorted(ended))))


def _write_calls(dialect: Dialect, ended: Sequence[int]) -> Plan[dict[int, Woken]]:
    """Write the ends of children into the steps that wait for them; return their parents, and what may wake them."""
    calls = yield from dialect.ask(END_CALLS, ended)
    if refer := [call.child_id for call in calls if call.refers]:
        yield from dialect.ask(KEEP_RESULTS, refer)
    woken = {call.job_id: Woken.BY_CALL for call in calls}
    return woken | {call.job_id: Woken.BY_FIRST for call in calls if call.in_first}


def wake_parents(dialect: Dialect, parents: Mapping[int, Woken]) -> Plan[bool]:
    """Let parents run whose waits are over. A parent that another transaction has locked is checked later."""
    locked = yield from dialect.ask(LOCK_FREE_JOBS, sorted(parents))
    if busy := sorted(parents.keys() - set(locked)):
        yield from dialect.ask(CHECK_PARENTS, busy)
    return (yield from wake(dialect, locked, max(parents.values())))


def check_parents(dialect: Dialect) -> Plan[bool]:
    """Check parents that another transaction had locked when a child ended, and whose children are to be cancelled.
    Return whether any job is ready.
    """
    checks = yield from dialect.ask(PARENTS_TO_CHECK, CHECKED_AT_ONCE)
    if not checks:
        return False
    locked = yield from dialect.ask(LOCK_FREE_JOBS, sorted({check.job_id for check in checks}))
    left = sorted({check.job_id for check in checks}.difference(locked))
    busy = {job[0] for job in (yield from dialect.ask(LEASES, left))} if left else ()  # the others are gone
    over = [check for check in checks if check.job_id not in busy]
    children = sorted({check.child_id for check in over if check.child_id is not None})
    if children:
        yield from _write_calls(dialect, children)
    any_ready = yield from wake(dialect, locked, Woken.BY_FIRST)
    any_ready |= yield from cancel_children(dialect, locked)
    if over:
        yield from dialect.ask(PARENTS_CHECKED, [check.id for check in over])
    return any_ready


def _after(
    dialect: Dialect,
    changed: Changed,
    freed: Collection[tuple[int, int | None]] | None,
    in_use: InUse | None,
    locked: Locked,
) -> Plan[bool]:
    """Do what other jobs, limits and readers need. Return whether that made any job ready."""
    ended, any_ready = list(changed.ended), False
    if in_use is None:
        (in_use,) = yield from dialect.ask(IN_USE)
    if not any(in_use):
        return any_ready
    if ended and in_use.tags:
        yield from retag(dialect, ended)
    if ended and in_use.edges:
        any_ready |= yield from _resolve_ended(dialect, changed, locked)
    if in_use.slots and locked is not Locked.CALLER:
        any_ready |= yield from free(dialect, [(job_id, None) for job_id in ended] if freed is None else freed)
    if ended and in_use.waiters:  # also of other jobs that ended because of it
        yield from notify_waiters(dialect, changed.ended, changed.unblocked)
    return any_ready


def _write_end(
    dialect: Dialect,
    ended: Collection[int],
    tallies: Sequence[Tally],
    changed: Changed,
    *,
    claimed: bool,
    followed: bool,
) -> Plan[bool]:
    """Count the ends of these jobs, enqueue what follows, and pass the order on. Return whether anything follows.

    The batches of these jobs are added to `changed`.
    """
    follow_ups: list[int] = []
    if tallies:
        yield from dialect.ask(TALLY, tallies)
    if followed:
        follow_ups = yield from dialect.ask(FOLLOW_UP, sorted(ended))
        if follow_ups:
            yield from dialect.ask(KEEP_BLOBS, follow_ups)
        changed.batches.update((yield from count_ended(dialect, sorted(ended))))
    if not claimed:
        yield from pass_order(dialect, sorted(ended))
    return bool(follow_ups)


def _resolve_ended(dialect: Dialect, changed: Changed, locked: Locked) -> Plan[bool]:
    """Resolve the edges of jobs that have ended, and add what changes. Return whether that made any job ready."""
    if locked is Locked.CALLER:
        for job_id in changed.ended:
            yield from dialect.ask(queries.DOUBT_EDGES, job_id)
        return False
    (edges,) = yield from dialect.ask(queries.ENDED_EDGES, sorted(changed.ended))
    return (yield from _resolve(dialect, edges, changed, locked))


def resolve(dialect: Dialect, edges: Sequence[EndedEdge]) -> Plan[bool]:
    """Resolve edges whose blockers have ended, and notify the waiters of the jobs that change."""
    changed = Changed([], [], set(), {})
    any_ready = yield from _resolve(dialect, edges, changed, Locked.SKIP)
    if any(changed):
        yield from notify_waiters(dialect, changed.ended, changed.unblocked)
    if changed.batches:
        any_ready |= yield from finish_over(dialect, changed.batches, wait=False)
    if changed.parents:
        any_ready |= yield from wake_parents(dialect, changed.parents)
    return any_ready


def _resolve(dialect: Dialect, edges: Sequence[EndedEdge], changed: Changed, locked: Locked) -> Plan[bool]:
    """Resolve edges whose blockers have ended, and the edges of jobs that end because of it."""
    while edges:
        edges = yield from lock_waiting(dialect, edges, skip_locked=locked is Locked.SKIP)
        passing = [edge for edge in edges if edge.status == Status.SUCCEEDED or edge.on_failure == "run"]
        breaking = [edge for edge in edges if edge.status != Status.SUCCEEDED and edge.on_failure == "fail"]
        if passing:
            yield from dialect.ask(queries.SETTLE_EDGES, Status.SUCCEEDED, passing)
        if breaking:
            yield from dialect.ask(queries.SETTLE_EDGES, Status.FAILED, breaking)
        ended = yield from _break(dialect, breaking, changed)
        changed.ended.extend(ended)
        if passing:
            changed.unblocked.extend((yield from unblock(dialect, sorted({edge.job_id for edge in passing}))))
        edges = (yield from dialect.ask(queries.ENDED_EDGES, sorted(ended)))[0] if ended else []
    return bool(changed.unblocked or changed.ended)  # a follow-up of a job that ended may be ready


def _break(dialect: Dialect, edges: Sequence[EndedEdge], changed: Changed) -> Plan[list[int]]:
    """End the jobs that can no longer run; return the ids of the jobs that were still blocked."""
    ended: list[int] = []
    details: dict[Move, dict[int, str]] = {Move.BREAK: {}, Move.CANCEL: {}}
    for edge in edges:
        move = Move.CANCEL if edge.status == Status.CANCELLED else Move.BREAK
        details[move].setdefault(edge.job_id, _detail_of(edge, move))
    for move, by_id in details.items():
        if by_id:
            end = WaitingEnd(target(Status.BLOCKED, move), _CODES[move], only=Status.BLOCKED)
            touched = yield from end_waiting(dialect, by_id, end)
            ids = [job.id for job in touched]
            if ids:
                tallies = broken(touched, end.status, end.error_code)
                followed = any_followed(touched)
                yield from _write_end(dialect, ids, tallies, changed, claimed=False, followed=followed)
                if followed:
                    yield from _end_calls(dialect, ids, changed, Locked.SKIP)
                yield from retag(dialect, ids)
            ended += ids
    return ended


class WaitingEnd(NamedTuple):
    """How waiting jobs end. `only`: the status that they must have; otherwise any that is not an end.

    `running`: whether some of them may have claims, which are locked.
    """

    status: str
    error_code: str = ""
    result: str | None = None
    only: str | None = None
    on_end: str | None = None
    running: bool = False


def end_waiting(dialect: Dialect, details: Mapping[int, str | None], end: WaitingEnd) -> Plan[list[Touched]]:
    """End locked jobs, given the details of their errors; return them. Attempts that run lose their claims."""
    values = end.status, end.only, end.error_code or None, details, end.result, end.on_end
    ended = yield from dialect.ask(END_WAITING, sorted(details), *values)
    if end.running:
        yield from dialect.ask(DROP_LOCKED_CLAIMS, sorted(details))
    return ended


def any_followed(ended: Iterable[Touched]) -> bool:
    return any(job.followed for job in ended)


def _detail_of(edge: EndedEdge, move: Move) -> str:
    what = "chain" if edge.of_chain else "job"
    why = f" with {edge.error_code}" if edge.error_code else ""
    how = "was cancelled" if move is Move.CANCEL else "failed"
    return f"{what} {edge.blocker_id} {how}{why}"


def check_unsure_edges(dialect: Dialect) -> Plan[bool]:
    """Check edges that were written while another transaction may have settled the blocker.

    Return whether that made any job ready. Jobs and blockers that are locked now are left for the next check.
    """
    edges = yield from dialect.ask(queries.UNSURE_EDGES, CHECKED_AT_ONCE)
    if not edges:
        return False
    chains = sorted({edge.blocker_id for edge in edges if edge.of_chain})
    last = dict((yield from dialect.ask(queries.LAST_STEPS, chains)) if chains else ())
    blocker_ids = sorted({blocker_of(edge, last) for edge in edges})
    locked = dict((yield from dialect.ask(queries.LOCK_BLOCKERS, blocker_ids)))
    existing = set((yield from dialect.ask(queries.EXISTING_BLOCKERS, blocker_ids)))
    # a step may have been added before its predecessor was locked
    same = dict((yield from dialect.ask(queries.LAST_STEPS, chains)) if chains else ())
    ended, sure = [], []
    for edge in edges:
        job_id = blocker_of(edge, last)
        if job_id not in existing:
            ended.append(gone(edge))
        elif job_id in locked and (not edge.of_chain or same.get(edge.blocker_id) == last.get(edge.blocker_id)):
            found = EndedEdge(edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, *locked[job_id])
            if found.status in FINISHED and is_resolved_by(found):
                ended.append(found)
            else:
                sure.append(edge)
    any_ready = yield from resolve(dialect, ended)
    if sure:  # after the waiting jobs were locked: edges come last
        yield from dialect.ask(queries.TRUST_EDGES, sure)
    return any_ready


def repair_edges(dialect: Dialect) -> Plan[int]:
    """Resolve edges that no settle resolved: the blocker has ended or was deleted by plain SQL. Return how many.

    It reads all open edges, so it runs rarely.
    """
    (edges,) = yield from dialect.ask(queries.FORGOTTEN_EDGES, GONE_CODE, REPAIRED_AT_ONCE)
    if edges:
        yield from resolve(dialect, edges)
    return len(edges)
