"""The round of a worker, and the claim by hand: settle, expire, stage, claim, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TypeVar, cast

import msgspec

from rowcall.domain.job import is_paused
from rowcall.domain.outcome import Transition
from rowcall.store.columns import text
from rowcall.store.counts.tallies import Tallies
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import after_end, check_unsure_edges
from rowcall.store.ends.attempts import Ended, MakeTallies, attempts_of, settle, write_ended
from rowcall.store.ends.waiting import expire
from rowcall.store.jobs.claim_rows import WRITE_AFTER_MS, claim_together, write_old
from rowcall.store.jobs.unreadable import Unread, Unreadable
from rowcall.store.limits.admission import Admission, DeclaredLimits
from rowcall.store.limits.held_jobs import unhold_due
from rowcall.store.new_job import OnEnd
from rowcall.store.order.turns import serve
from rowcall.store.queries import jobs as queries
from rowcall.store.queries.jobs import NOTHING_KNOWN, ClaimRow, Places, Ready, Success, Work, all_plain, any_fair
from rowcall.store.recovery.recover import recover_expired
from rowcall.store.schedules.ticks import tick
from rowcall.store.statement import Plan, before_long

STAGED_AT_ONCE = 1000
STALE_AT_ONCE = 100

V = TypeVar("V")


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a claimer has room for: `slots` jobs start now, `buffer` more may wait in its buffer."""

    worker: str
    slots: int
    buffer: int = 0
    types: Collection[str] | None = None
    queues: Mapping[str, int | None] | None = None
    first_queue: int = 0
    lease_ms: int | None = None
    batches: Mapping[str, int] = {}
    """How many jobs of these types share one slot."""
    batch_room: Mapping[str, int] = {}
    """How many more jobs of these types fit into batches that already have a slot."""
    limits: DeclaredLimits = DeclaredLimits()
    aliases: Mapping[str, str] = {}
    """Task names by their aliases."""
    on_end: OnEnd | None = None
    offers: Sequence[int] = ()
    """Jobs that another worker refused, and that fit this one."""
    resume: Places = NOTHING_KNOWN
    """Where the last round ended. Jobs that stand before these places wait for a round that starts at the beginning."""
    quick: bool = False
    """Whether jobs probably end within milliseconds: then they are claimed together, by claim rows."""

    @property
    def claimed_alone(self) -> Collection[str]:
        """The queues and types whose jobs are never claimed together."""
        return {*self.batches, *self.limits.of_task, *self.limits.of_queue, *self.limits.ordered}

    @property
    def room(self) -> int:
        return self.slots + self.buffer

    @property
    def wants_any(self) -> bool:
        return self.room > 0 or any(self.batch_room.values())


class Claim(msgspec.Struct):
    """What a round claimed. Jobs in `joining` join a batch that was started; jobs in `unread` have failed because their
    rows cannot be read. `more`: another round would find something at once. `stuck`: another transaction has locked
    what is due. `left`: another transaction has locked the limit of some jobs. `slot_wanted`: the next job of some
    queue may not wait in the buffer and needs a free slot; nothing behind it was claimed.
    """

    work: Work
    started: list[Ready] = []
    buffered: list[Ready] = []
    joining: list[Ready] = []
    unread: list[Unreadable] = []
    batch_room: dict[str, int] = {}
    offered: dict[str, list[Ready]] = {}
    """Offered jobs that exist and were not considered yet, by queue."""
    passed_over: list[int] = []
    """Offered jobs without room, in this worker or under a limit."""
    places: dict[tuple[str, str], tuple[int, int, int] | None] = {}
    """For each queue and type of ready jobs: the place of the last one that was found, if any was."""
    settled: set[int] = set()
    cancelled: dict[int, Transition] = {}
    more: bool = False
    stuck: bool = False
    left: bool = False
    slot_wanted: bool = False
    any_claim_row: bool = False
    """Whether claims of this worker are not written into the jobs' own rows."""
    any_claim_left: bool = False
    """Whether some of them should be, but other transactions have locked their jobs."""


def round_of_work(
    dialect: Dialect,
    ended: Sequence[Ended | Success],
    make_tallies: MakeTallies | None,
    demand: Demand,
    now_ms: int | None,
    *,
    late: Sequence[tuple[int, int]] = (),
    abandoned: Collection[tuple[int, int]] = (),
    any_claim_row: bool = True,
    before_settle: Callable[[], None] | None = None,
) -> Plan[Claim]:
    """Run one round of a worker. A worker that is no longer registered (it was declared lost) claims nothing.

    `late` are attempts (ids and leases) whose handlers ended after they were settled. The handlers of
    `abandoned` attempts still run, so their slots under limits are not freed. `any_claim_row`: whether there may be
    claim rows of this worker. `before_settle` is called just before the statement that takes most of the time.
    """
    claims: Sequence[ClaimRow] = ()
    if any_claim_row:
        claims = yield from dialect.ask(queries.CLAIMS_OF, now_ms, demand.worker, WRITE_AFTER_MS)
    writing = write_ended(dialect, ended, make_tallies, now_ms, demand.worker, claims)
    settled, cancelled, tallies = yield from (writing if before_settle is None else before_long(writing, before_settle))
    any_left = yield from write_old(dialect, claims)
    if demand.resume:
        known = list(demand.resume)
        (work,) = yield from dialect.ask(queries.FIND_OTHER_WORK_AND_LOCK, now_ms, demand.worker, known)
    else:
        (work,) = yield from dialect.ask(queries.FIND_WORK_AND_LOCK, now_ms, demand.worker)
    if ended or late:
        freed = [*attempts_of(ended, abandoned), *(one for one in late if one not in abandoned)] if work.slots else ()
        if (yield from after_end(dialect, settled, tallies, now_ms, freed, work.concerned)):
            (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, demand.worker)
    if not work.registered:
        return Claim(work, settled=settled, cancelled=cancelled)
    claim = yield from _claim(dialect, demand, work, now_ms)
    claim.settled, claim.cancelled = settled, cancelled
    claim.any_claim_row |= any(not one.is_old for one in claims)
    claim.any_claim_left = any_left
    return claim


def claim_first(dialect: Dialect, demand: Demand, now_ms: int | None) -> Plan[Claim | None]:
    """Claim plain jobs for free slots with one read and one write. A round needs three more round trips to a server.

    Return None where a round is needed.
    """
    if not demand.quick or not demand.slots or demand.offers or demand.resume:
        return None
    (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, demand.worker)
    if work.edges_unsure or (work.next_at_ms is not None and work.next_at_ms <= work.now_ms):
        return None
    wanted = [(queue, task) for queue, tasks in wanted_types(demand, work).items() for task in tasks]
    if not wanted:
        return Claim(work)
    queue, task = wanted[0]
    if len(wanted) > 1 or queue in demand.claimed_alone or task in demand.claimed_alone:
        return None
    slots = min(demand.slots, share_of(demand, queue, Claim(work), 1))
    behind = work.ready[queue, task] or queries.START
    found = yield from dialect.ask(queries.CLAIM_FIRST, work.now_ms, queue, slots, task, *behind, demand.worker)
    return Claim(work, started=found, more=len(found) == slots, any_claim_row=True) if found else None


def claim_by_hand(dialect: Dialect, demand: Demand, now_ms: int | None) -> Plan[Claim]:
    """Claim without a worker process. Jobs whose lease has expired are recovered first: no worker may be running."""
    yield from recover_expired(dialect, now_ms, demand.on_end)
    (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, None)
    return (yield from _claim(dialect, demand, work, now_ms))


def _claim(dialect: Dialect, demand: Demand, work: Work, now_ms: int | None) -> Plan[Claim]:
    stuck = False
    if work.edges_unsure and (yield from check_unsure_edges(dialect, now_ms)):
        (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, demand.worker)
    if work.next_at_ms is not None and work.next_at_ms <= work.now_ms:
        ticked = work.is_wake_due and (yield from tick(dialect, work.now_ms))
        expired = yield from expire(dialect, work.concerned, now_ms)
        staged = yield from _stage(dialect, now_ms)
        opened = work.is_wake_due and (yield from unhold_due(dialect, demand.limits, now_ms))
        stuck = not (expired or staged or ticked or opened)
        (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, demand.worker)
    admission = Admission(demand.limits, now_ms, None if demand.lease_ms is not None else demand.worker)
    now_ms = work.now_ms  # the whole claim, and what is reported of it, has one time
    places = {pair: demand.resume.get(pair) for pair in work.ready}
    claim = Claim(work, stuck=stuck, batch_room=dict(demand.batch_room), places=places)
    wanted = wanted_types(demand, work)
    if demand.offers:
        yield from _claim_offers(dialect, demand, work, claim, now_ms)
        wanted.update({queue: [] for queue in claim.offered if queue not in wanted})
    queues = in_turn(list(wanted), demand.first_queue)
    while queues:
        queues = yield from _claim_shares(dialect, demand, wanted, queues, claim, admission, now_ms)
    claim.passed_over += [job.id for jobs in claim.offered.values() for job in jobs]
    claimed = (*claim.started, *claim.buffered, *claim.joining)
    if any_fair(claimed):
        yield from serve(dialect, [job for job in claimed if job.fair is not None])
    retried = {} if all_plain(claimed) else {job.id: job for job in claimed if job.attempt > 1}
    if retried:
        for job_id, code, detail in (yield from dialect.ask(queries.ERRORS_OF, list(retried))):
            job = retried[cast("int", job_id)]
            job.error_code, job.error_detail = text(code), text(detail)
    claim.left = admission.left
    claim.more |= admission.again or (admission.crowded and admission.moved) or bool(demand.resume)
    return claim


def _stage(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """Make due jobs pending, and return how many."""
    if any((yield from dialect.ask(queries.ANY_TAG))):
        yield from dialect.ask(queries.RETAG_DUE, now_ms, STAGED_AT_ONCE)
    return (yield from dialect.change(queries.STAGE, now_ms, STAGED_AT_ONCE))


def _claim_shares(
    dialect: Dialect,
    demand: Demand,
    wanted: Mapping[str, Sequence[str]],
    queues: Sequence[str],
    claim: Claim,
    admission: Admission,
    now_ms: int | None,
) -> Plan[list[str]]:
    """Claim an equal share of each queue, and return the queues that may have more, while there is room."""
    already = len(claim.started), len(claim.buffered), len(claim.joining)
    plenty: list[str] = []
    for position, queue in enumerate(queues):
        share = share_of(demand, queue, claim, len(queues) - position)
        if share > 0:
            alone = demand.claimed_alone if demand.quick else None
            types = wanted[queue]
            # jobs that were held may just have become ready, before the first one that was found
            places = demand.resume or (NOTHING_KNOWN if admission.again else claim.work.ready)
            found = (yield from dialect.ready_jobs(queue, types, share, now_ms, alone, places)) if types else []
            if not found and types and places is claim.work.ready and not dialect.one_writer:
                # others may have claimed that first one, and jobs that come before it may have been committed
                found = yield from dialect.ready_jobs(queue, types, share, now_ms, alone)
            if not found and not demand.resume and (yield from _drop_stale(dialect, queue, types)):
                plenty.append(queue)
            if not dialect.one_writer:
                _note_places(claim, queue, found)
            ready = admission.unread.readable(found)
            offered = claim.offered.pop(queue, [])
            if offered:
                ready = sorted([*offered, *ready], key=Ready.order)[:share]
            held = admission.held
            if demand.limits.concern(ready):
                assigned = yield from admission.admit(dialect, ready, partial(_assign, demand, claim))
                if admission.held > held and len(found) == share:
                    yield from admission.sift(dialect, queue, wanted[queue], {job.id for job in assigned})
            else:
                assigned = _assign_all(demand, claim, ready)
            if offered:
                taken = {job.id for job in assigned}
                claim.passed_over += [job.id for job in offered if job.id not in taken]
            if claim.slot_wanted:  # buffer no more jobs of any queue: otherwise the slot might never come free
                plenty = []
                break
            if (assigned or admission.held > held or admission.unread.jobs) and max(len(found), len(ready)) == share:
                plenty.append(queue)
    started, buffered = claim.started[already[0] :], claim.buffered[already[1] :]
    if started or buffered:
        yield from _mark_claimed(dialect, demand, started, buffered, claim, now_ms)
    if claim.joining[already[2] :]:
        yield from _mark_joining(dialect, demand, claim.joining[already[2] :], now_ms)
    if claim.batch_room:
        yield from _fill_batches(dialect, demand, wanted, claim, admission, now_ms)
    if unread := admission.unread.jobs:
        claim.unread += yield from _claim_to_fail(dialect, demand.worker, unread.values(), demand.lease_ms, now_ms)
        unread.clear()
    claim.more = bool(plenty)
    return plenty if len(claim.started) + len(claim.buffered) < demand.room and not admission.enough else []


def _note_places(claim: Claim, queue: str, found: Sequence[Ready]) -> None:
    """Note where the next round can resume its search."""
    last = {job.type: job for job in found}
    # fair jobs, and the next ones in order, may come before the last one that was claimed
    last = {task: job for task, job in last.items() if job.fair is None and job.ordered is None}
    claim.places.update({(queue, task): job.order() for task, job in last.items()})


def _mark_claimed(
    dialect: Dialect,
    demand: Demand,
    started: Sequence[Ready],
    buffered: Sequence[Ready],
    claim: Claim,
    now_ms: int | None,
) -> Plan[None]:
    """Claim plain jobs together where they probably end soon, and the others by their own rows."""
    if demand.quick:
        plain_started, started = _parted(demand, started)
        plain_buffered, buffered = _parted(demand, buffered)
        if plain_started or plain_buffered:
            yield from claim_together(dialect, demand.worker, plain_started, plain_buffered, now_ms)
            claim.any_claim_row = True
    if started or buffered:
        yield from dialect.mark_claimed(demand.worker, started, buffered, demand.lease_ms, now_ms)


def _parted(demand: Demand, jobs: Sequence[Ready]) -> tuple[list[Ready], list[Ready]]:
    """Return the jobs to claim together, and the others."""
    alone = demand.claimed_alone
    if not alone and all_plain(jobs):
        return list(jobs), []
    together = [job for job in jobs if job.is_plain and job.type not in alone and job.queue not in alone]
    if len(together) == len(jobs):
        return together, []
    ids = {job.id for job in together}
    return together, [job for job in jobs if job.id not in ids]


def _drop_stale(dialect: Dialect, queue: str, types: Sequence[str]) -> Plan[bool]:
    """Where ready jobs were seen, but none was found: remove rows that stand before others and lead to no job."""
    dropped = 0
    for task in types:
        dropped += yield from dialect.change(queries.DROP_STALE, queue, task, STALE_AT_ONCE)
    return dropped > 0


def _fill_batches(
    dialect: Dialect,
    demand: Demand,
    wanted: Mapping[str, Sequence[str]],
    claim: Claim,
    admission: Admission,
    now_ms: int | None,
) -> Plan[None]:
    """Fill up the batches that have a slot."""
    for queue, tasks in wanted.items():
        for task in tasks:
            if claim.batch_room.get(task):
                room, places = claim.batch_room[task], claim.work.ready
                found = yield from dialect.ready_jobs(queue, [task], room, now_ms, places=places)
                ready = admission.unread.readable(found)
                if demand.limits.concern(ready):
                    ready = yield from admission.admit(dialect, ready, lambda job, at_once: True)
                claim.batch_room[task] -= len(ready)
                claim.joining += ready
                if ready:
                    yield from _mark_joining(dialect, demand, ready, now_ms)


def _mark_joining(dialect: Dialect, demand: Demand, joining: Sequence[Ready], now_ms: int | None) -> Plan[None]:
    yield from dialect.mark_claimed(
        demand.worker,
        [job for job in joining if not job.bufferable],
        [job for job in joining if job.bufferable],
        demand.lease_ms,
        now_ms,
    )


def _claim_offers(dialect: Dialect, demand: Demand, work: Work, claim: Claim, now_ms: int | None) -> Plan[None]:
    for job in (yield from dialect.ask(queries.OFFERED_JOBS, now_ms, demand.offers)):
        if _is_wanted(demand, work, job.queue, job.type):
            claim.offered.setdefault(job.queue, []).append(job)


def wanted_types(demand: Demand, work: Work) -> dict[str, list[str]]:
    """Return the types with ready jobs that this claimer may claim, by queue."""
    wanted: dict[str, list[str]] = {}
    for queue, task in work.ready:
        if _is_wanted(demand, work, queue, task):
            wanted.setdefault(queue, []).append(task)
    return wanted


def _is_wanted(demand: Demand, work: Work, queue: str, task: str) -> bool:
    if demand.queues is not None and queue not in demand.queues:
        return False
    if work.paused and any(is_paused(queue, name, work.paused) for name in (task, demand.aliases.get(task, task))):
        return False
    return demand.types is None or task in demand.types


def in_turn(queues: list[str], first_queue: int) -> list[str]:
    """Return the queues, starting with another one each time, so that none is always last."""
    turn = first_queue % len(queues) if queues else 0
    return queues[turn:] + queues[:turn]


def share_of(demand: Demand, queue: str, claim: Claim, queues_left: int) -> int:
    """Return an equal share of the remaining room, within the queue's own limit."""
    room = demand.room - len(claim.started) - len(claim.buffered)
    share = -(-room // queues_left)
    limit = demand.queues.get(queue) if demand.queues is not None else None
    if limit is None:
        return share
    of_queue = sum(job.queue == queue for job in (*claim.started, *claim.buffered))
    return min(share, limit - of_queue)


def _assign_all(demand: Demand, claim: Claim, ready: list[Ready]) -> list[Ready]:
    """Assign as many jobs as there is room for. Without batches, use slices: a call for each job is slow."""
    if demand.batches or claim.batch_room:
        return list(takewhile(partial(_assign, demand, claim), ready))
    slots = max(0, demand.slots - len(claim.started))
    started, waiting = ready[:slots], ready[slots:]
    if not all_plain(waiting):
        buffered = list(takewhile(lambda job: job.is_plain or job.bufferable, waiting))
        claim.slot_wanted |= len(buffered) < len(waiting)
        waiting = buffered
    claim.started += started
    claim.buffered += waiting
    return [*started, *waiting]


def _assign(demand: Demand, claim: Claim, job: Ready, at_once: bool = False) -> bool:
    """Give the job a slot, or put it into the buffer unless `at_once`; return False if there is no room."""
    if claim.batch_room and claim.batch_room.get(job.type):
        claim.batch_room[job.type] -= 1
        claim.joining.append(job)
    elif len(claim.started) < demand.slots:
        claim.started.append(job)
        if job.type in demand.batches:
            claim.batch_room[job.type] = demand.batches[job.type] - 1
    elif job.bufferable and job.type not in demand.batches and not at_once:
        claim.buffered.append(job)
    else:
        claim.slot_wanted = True
        return False
    return True


def _claim_to_fail(
    dialect: Dialect, worker: str, unread: Iterable[Unreadable], lease_ms: int | None, now_ms: int | None
) -> Plan[list[Unreadable]]:
    """Claim jobs that cannot be read, fail them, and return them."""
    found = list(unread)
    if not dialect.one_writer:  # the jobs of ready rows may be locked by others
        locked = set((yield from dialect.ask(queries.LOCK_FREE, [one.job.id for one in found])))
        found = [one for one in found if one.job.id in locked]
    yield from dialect.mark_claimed(worker, [one.job for one in found], [], lease_ms, now_ms)
    yield from _fail(dialect, found, now_ms)
    return found


def made(dialect: Dialect, claimed: Iterable[Ready], make: Callable[[Ready], V], now_ms: int | None) -> Plan[list[V]]:
    """Return `make(job)` for each claimed job. A job for which this raises fails."""
    unread = Unread()
    values = [value for job in claimed if (value := unread.read(job, "the row", make)) is not None]
    if unread.jobs:
        yield from _fail(dialect, list(unread.jobs.values()), now_ms)
    return values


def _fail(dialect: Dialect, unread: list[Unreadable], now_ms: int | None) -> Plan[None]:
    tallies = Tallies()
    for job, transition in unread:
        tallies.enter(job.queue, job.type, job.attempt, transition, None, None)
    ended = [Ended(job.id, job.lease, transition) for job, transition in unread]
    yield from settle(dialect, ended, lambda settled: tallies.rows(), now_ms)
