"""The round of a worker, and the claim by hand: settle, expire, stage, claim, in one transaction.

A claim is find → admit → write: find the first ready jobs of a few queues in turn, admit the ones that have room here
and under their limits, write a row for each into the table of claims.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar, cast

import msgspec

from rowcall.domain.fingerprint import key_of, takes, task_of
from rowcall.domain.job import is_paused
from rowcall.domain.outcome import Transition
from rowcall.store.columns import text
from rowcall.store.counts.tallies import Tallies
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import after_end, check_unsure_edges
from rowcall.store.ends.attempts import Ended, MakeTallies, attempts_of, drop_void, settle, write_ended
from rowcall.store.ends.waiting import expire
from rowcall.store.jobs.unreadable import Unread, Unreadable
from rowcall.store.limits.admission import Admission, DeclaredLimits
from rowcall.store.limits.held_jobs import unhold_due
from rowcall.store.new_job import OnEnd
from rowcall.store.order.turns import serve
from rowcall.store.queries import claims as queries
from rowcall.store.queries.claims import NOTHING_KNOWN, Fence, Places, Ready, Work, all_plain, any_fair
from rowcall.store.queries.ends import Owner, Success
from rowcall.store.queries.jobs import ANY_TAG, RETAG_DUE, STAGE
from rowcall.store.recovery.recover import recover_expired
from rowcall.store.schedules.ticks import tick
from rowcall.store.statement import Plan, before_long

STAGED_AT_ONCE = 1000
STALE_AT_ONCE = 100
FEWEST_QUEUES, LEAST_SHARE = 10, 25
"""A round visits that many queues, or more if each still has a share that is worth a statement."""

V = TypeVar("V")


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a claimer has room for: `slots` jobs start now, `buffer` more may wait in its buffer."""

    worker: str
    holder: int = 0
    slots: int
    buffer: int = 0
    lost_ahead: int = 0
    """How many jobs in the buffer may be ones that were lost before: a kill may charge them for it."""
    last_ahead: int | None = None
    """How many may be on their last attempt; None for any number."""
    types: Mapping[str, str | None] | None = None
    """The tasks that it knows, with their fingerprints; None for all."""
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
    resume: Places = NOTHING_KNOWN
    """Where the last round ended. Jobs that stand before these places wait for a round that starts at the beginning."""

    @property
    def owner(self) -> Owner:
        return Owner(self.worker, self.holder)

    @property
    def room(self) -> int:
        return self.slots + self.buffer

    @property
    def wants_any(self) -> bool:
        return self.room > 0 or any(self.batch_room.values())


class Claim(msgspec.Struct):
    """What a round claimed. Jobs in `joining` join a batch that was started; jobs in `unread` have failed because their
    rows cannot be read. `more`: another round would find something at once. `stuck`: another transaction has locked
    what is due. `left`: another transaction has locked the limit of some jobs.
    """

    work: Work
    started: list[Ready] = []
    buffered: list[Ready] = []
    joining: list[Ready] = []
    unread: list[Unreadable] = []
    places: dict[tuple[str, str], tuple[int, int, int] | None] = {}
    """For each queue and type of ready jobs: the place of the last one that was found, if any was."""
    turns: int = 1
    """By how many queues the next round starts later in their order."""
    settled: set[int] = set()
    cancelled: dict[int, Transition] = {}
    more: bool = False
    stuck: bool = False
    left: bool = False
    marked: set[int] = set()
    """Those of the others whose claims say that they have started: a kill counts as an attempt."""
    slot_needed: bool = False
    """Whether a job that must start when it is claimed found no free slot; nothing behind it was claimed."""
    is_cut: bool = False
    """Whether jobs were found that may not wait in the buffer."""

    @property
    def jobs(self) -> list[Ready]:
        return [*self.started, *self.buffered, *self.joining]

    @property
    def taken(self) -> int:
        """How many of its jobs need a slot, now or later."""
        return len(self.started) + len(self.buffered)

    def drop(self, job_ids: Collection[int]) -> None:
        """Leave out jobs that could not be claimed."""
        for jobs in (self.started, self.buffered, self.joining):
            jobs[:] = [job for job in jobs if job.id not in job_ids]


def round_of_work(
    dialect: Dialect,
    ended: Sequence[Ended | Success],
    make_tallies: MakeTallies | None,
    demand: Demand,
    now_ms: int | None,
    *,
    late: Sequence[tuple[int, int]] = (),
    abandoned: Collection[tuple[int, int]] = (),
    void: Sequence[Fence] = (),
    before_settle: Callable[[], None] | None = None,
) -> Plan[Claim]:
    """Run one round of a worker. A worker that is no longer registered (it was declared lost) claims nothing.

    `late` are attempts (ids and leases) whose handlers ended after they were settled. The handlers of
    `abandoned` attempts still run, so their slots under limits are not freed. `void` are attempts whose jobs were
    ended or changed from outside. `before_settle` is called just before the statement that takes most of the time.
    """
    if void:
        yield from drop_void(dialect, void)
    writing = write_ended(dialect, ended, make_tallies, now_ms, demand.owner)
    settled, cancelled, tallies = yield from (writing if before_settle is None else before_long(writing, before_settle))
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
    claim = yield from Round(dialect, demand, now_ms).run(work)
    claim.settled, claim.cancelled = settled, cancelled
    return claim


def claim_first(dialect: Dialect, demand: Demand, now_ms: int | None) -> Plan[Claim | None]:
    """Claim plain jobs for free slots with one read and one write. A round needs three more round trips to a server.

    Return None where a round is needed.
    """
    if not demand.slots or demand.resume:
        return None
    (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, demand.worker)
    if work.edges_unsure or (work.next_at_ms is not None and work.next_at_ms <= work.now_ms):
        return None
    wanted = [(queue, key) for queue, keys in wanted_types(demand, work).items() for key in keys]
    if not wanted:
        return Claim(work)
    queue, key = wanted[0]
    limits = demand.limits
    alone = {*demand.batches, *limits.of_task, *limits.of_queue, *limits.ordered}
    if len(wanted) > 1 or queue in alone or task_of(key) in alone:
        return None
    slots = min(demand.slots, share_of(demand, queue, Claim(work), 1))
    behind = work.ready[queue, key] or queries.START
    parameters = (work.now_ms, queue, slots, key, *behind, *demand.owner)
    claimed = yield from dialect.ask(queries.CLAIM_FIRST, *parameters)
    for job in claimed:
        job.holder = demand.holder
    return Claim(work, started=claimed, more=len(claimed) == slots) if claimed else None


def claim_by_hand(dialect: Dialect, demand: Demand, now_ms: int | None) -> Plan[Claim]:
    """Claim without a worker process. Jobs whose lease has expired are recovered first: no worker may be running."""
    yield from recover_expired(dialect, now_ms, demand.on_end)
    (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, None)
    return (yield from Round(dialect, demand, now_ms).run(work))


class Round:
    """Claims jobs in a transaction that it is a part of: find → admit → write."""

    def __init__(self, dialect: Dialect, demand: Demand, now_ms: int | None) -> None:
        self._dialect = dialect
        self._demand = demand
        self._now_ms = now_ms
        self._admission = Admission(demand.limits, now_ms, None if demand.lease_ms is not None else demand.worker)
        self._lost_left = demand.lost_ahead
        self._last_left = demand.last_ahead
        self._batch_room = dict(demand.batch_room)

    def run(self, work: Work) -> Plan[Claim]:
        """Stage what is due, and claim what there is room for. `work` is what was found."""
        work, stuck = yield from self._stage(work)
        self._now_ms = work.now_ms  # the whole claim, and what is reported of it, has one time
        self._claim = claim = Claim(
            work, stuck=stuck, places={pair: self._demand.resume.get(pair) for pair in work.ready}
        )
        self._wanted = wanted_types(self._demand, work)
        queues = in_turn(list(self._wanted), self._demand.first_queue)
        while queues:
            few = queues[: max(FEWEST_QUEUES, self._room // LEAST_SHARE)]
            plenty = yield from self._visit(few)
            queues = [*queues[len(few) :], *plenty]
            if self._room <= 0 or self._admission.enough or claim.is_cut:
                break
        moved = bool(claim.taken or claim.joining or claim.unread or self._admission.held)
        yield from self._finish(any_left=bool(queues) and moved)
        return claim

    @property
    def _room(self) -> int:
        return self._demand.room - self._claim.taken

    def _stage(self, work: Work) -> Plan[tuple[Work, bool]]:
        """Do what is due by the clock. Return the work after that, and whether others have locked all that is due."""
        dialect, demand, now_ms = self._dialect, self._demand, self._now_ms
        stuck = False
        if work.edges_unsure and (yield from check_unsure_edges(dialect, now_ms)):
            (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, demand.worker)
        if work.next_at_ms is not None and work.next_at_ms <= work.now_ms:
            ticked = work.is_wake_due and (yield from tick(dialect, work.now_ms))
            expired = yield from expire(dialect, work.concerned, now_ms)
            staged = yield from stage(dialect, now_ms)
            opened = work.is_wake_due and (yield from unhold_due(dialect, demand.limits, now_ms))
            stuck = not (expired or staged or ticked or opened)
            (work,) = yield from dialect.ask(queries.FIND_WORK, now_ms, demand.worker)
        return work, stuck

    def _visit(self, queues: Sequence[str]) -> Plan[list[str]]:
        """Claim an equal share of each queue, and return the queues that may have more."""
        claim, admission = self._claim, self._admission
        already = len(claim.started), len(claim.buffered), len(claim.joining)
        plenty: list[str] = []
        visited = 0
        for position, queue in enumerate(queues):
            share = share_of(self._demand, queue, claim, len(queues) - position)
            visited += share > 0
            if share > 0 and (yield from self._find_and_admit(queue, share)):
                plenty.append(queue)
            if claim.is_cut:  # buffer no more jobs of any queue: otherwise a slot might never come free
                break
        claim.turns = visited if visited < len(self._wanted) else 1
        yield from self._write(claim.started[already[0] :], claim.buffered[already[1] :], claim.joining[already[2] :])
        if self._batch_room:
            yield from self._fill_batches()
        if admission.unread.jobs:
            claim.unread += yield from self._claim_to_fail(list(admission.unread.jobs.values()))
            admission.unread.jobs.clear()
        return plenty

    # find and admit

    def _find_and_admit(self, queue: str, share: int) -> Plan[bool]:
        """Admit the first jobs of a queue. Return whether there may be more."""
        admission, types, held = self._admission, self._wanted[queue], self._admission.held
        first = yield from self._find(queue, share)
        if not first and not self._demand.resume and (yield from self._drop_stale(queue)):
            return True
        ready = admission.unread.readable(first)
        if self._demand.limits.concern(ready):
            admitted = yield from admission.admit(self._dialect, ready, self._reserve)
            if admission.held > held and len(first) == share:
                yield from admission.sift(self._dialect, queue, types, {job.id for job in admitted})
        else:
            admitted = self._reserve_all(ready)
        return len(first) == share and bool(admitted or admission.held > held or admission.unread.jobs)

    def _find(self, queue: str, share: int) -> Plan[list[Ready]]:
        dialect, types, claim = self._dialect, self._wanted[queue], self._claim
        # jobs that were held may just have become ready, before the first one that was found
        places = self._demand.resume or (NOTHING_KNOWN if self._admission.again else claim.work.ready)
        first = yield from dialect.ready_jobs(queue, types, share, self._now_ms, places)
        if not first and places is claim.work.ready and not dialect.one_writer:
            # others may have claimed that first one, and jobs that come before it may have been committed
            first = yield from dialect.ready_jobs(queue, types, share, self._now_ms)
        if not dialect.one_writer:
            last = {(job.type, job.unfit): job for job in first}
            # fair jobs, and the next ones in order, may come before the last one that was claimed
            last = {alike: job for alike, job in last.items() if job.fair is None and job.ordered is None}
            claim.places.update({(queue, key_of(*alike)): job.order() for alike, job in last.items()})
        return first

    def _drop_stale(self, queue: str) -> Plan[bool]:
        """Where ready jobs were seen, but none was found: remove rows that stand before others and lead to no job."""
        dropped = 0
        for key in self._wanted[queue]:
            dropped += yield from self._dialect.change(queries.DROP_STALE, queue, key, STALE_AT_ONCE)
        return dropped > 0

    def _reserve_all(self, ready: list[Ready]) -> list[Ready]:
        """Reserve room for as many jobs as possible. Without batches, use slices: a call for each job is slow."""
        if self._demand.batches or self._batch_room or not all_plain(ready):
            admitted = []
            for job in ready:
                if not self._reserve(job):
                    break
                admitted.append(job)
            return admitted
        slots = max(0, self._demand.slots - len(self._claim.started))
        self._claim.started += ready[:slots]
        self._claim.buffered += ready[slots:]
        return ready

    def _reserve(self, job: Ready, at_once: bool = False) -> bool:
        """Give the job a slot, or put it into the buffer unless `at_once`; return False if there is no room."""
        claim, demand = self._claim, self._demand
        if self._batch_room.get(job.type):
            self._batch_room[job.type] -= 1
            claim.joining.append(job)
        elif len(claim.started) < demand.slots:
            claim.started.append(job)
            if job.type in demand.batches:
                self._batch_room[job.type] = demand.batches[job.type] - 1
        elif at_once or job.type in demand.batches:
            claim.slot_needed = claim.is_cut = True
            return False
        elif claim.taken >= demand.room:
            return False
        elif self._may_wait(job):
            claim.buffered.append(job)
        else:
            claim.is_cut = True
            return False
        return True

    def _may_wait(self, job: Ready) -> bool:
        """Return whether the job may wait in the buffer, where a kill charges it for an attempt that had not begun."""
        if job.lost > 0:
            self._lost_left -= 1
            return self._lost_left >= 0
        if self._last_left is not None and job.attempt >= job.max_attempts:
            self._last_left -= 1
            return self._last_left >= 0
        return True

    def _fill_batches(self) -> Plan[None]:
        """Fill up the batches that have a slot."""
        for queue, keys in self._wanted.items():
            for key in keys:
                task = task_of(key)
                if room := self._batch_room.get(task):
                    places = self._claim.work.ready
                    first = yield from self._dialect.ready_jobs(queue, [key], room, self._now_ms, places)
                    ready = self._admission.unread.readable(first)
                    if self._demand.limits.concern(ready):
                        ready = yield from self._admission.admit(self._dialect, ready, lambda job, at_once: True)
                    self._batch_room[task] -= len(ready)
                    self._claim.joining += ready
                    yield from self._write([], [], ready)

    # write

    def _write(self, started: Sequence[Ready], buffered: Sequence[Ready], joining: Sequence[Ready]) -> Plan[None]:
        """Write the claims. Jobs that a kill must charge are marked as started."""
        waiting = [*buffered, *joining]
        marked = [] if all_plain(waiting) else [job for job in waiting if self._is_marked(job)]
        if marked:
            ids = {job.id for job in marked}
            self._claim.marked |= ids
            waiting = [job for job in waiting if job.id not in ids]
        jobs = [*started, *marked, *waiting]
        if not jobs:
            return
        for job in jobs:
            job.holder = self._demand.holder
        demand, starting = self._demand, [*started, *marked]
        claimed = yield from self._dialect.claim(starting, waiting, demand.owner, demand.lease_ms, self._now_ms)
        if claimed is not None:
            self._claim.drop({job.id for job in jobs} - claimed)

    def _is_marked(self, job: Ready) -> bool:
        return job.lost > 0 or (self._last_left is not None and job.attempt >= job.max_attempts)

    def _claim_to_fail(self, unread: list[Unreadable]) -> Plan[list[Unreadable]]:
        """Claim jobs that cannot be read, fail them, and return them."""
        demand, jobs = self._demand, [one.job for one in unread]
        for job in jobs:
            job.holder = demand.holder
        claimed = yield from self._dialect.claim(jobs, [], demand.owner, demand.lease_ms, self._now_ms)
        ours = [one for one in unread if claimed is None or one.job.id in claimed]
        yield from _fail(self._dialect, ours, self._now_ms)
        return ours

    def _finish(self, *, any_left: bool) -> Plan[None]:
        claim, admission = self._claim, self._admission
        jobs = claim.jobs
        if any_fair(jobs):
            yield from serve(self._dialect, [job for job in jobs if job.fair is not None])
        retried = {} if all_plain(jobs) else {job.id: job for job in jobs if job.attempt > 1}
        if retried:
            for job_id, code, detail in (yield from self._dialect.ask(queries.ERRORS_OF, list(retried))):
                job = retried[cast("int", job_id)]
                job.error_code, job.error_detail = text(code), text(detail)
        claim.left = admission.left
        crowded = admission.crowded and admission.moved
        claim.more = any_left or admission.again or crowded or bool(self._demand.resume)


def stage(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """Make due jobs pending, and return how many."""
    if any((yield from dialect.ask(ANY_TAG))):
        yield from dialect.ask(RETAG_DUE, now_ms, STAGED_AT_ONCE)
    return (yield from dialect.change(STAGE, now_ms, STAGED_AT_ONCE))


def wanted_types(demand: Demand, work: Work) -> dict[str, list[str]]:
    """Return the keys of ready jobs that this claimer may claim, by queue."""
    wanted: dict[str, list[str]] = {}
    for queue, key in work.ready:
        if _is_wanted(demand, work, queue, key):
            wanted.setdefault(queue, []).append(key)
    return wanted


def _is_wanted(demand: Demand, work: Work, queue: str, key: str) -> bool:
    if demand.queues is not None and queue not in demand.queues:
        return False
    task = task_of(key)
    if work.paused and any(is_paused(queue, name, work.paused) for name in (task, demand.aliases.get(task, task))):
        return False
    return takes(demand.types, key)


def in_turn(queues: list[str], first_queue: int) -> list[str]:
    """Return the queues, starting with another one each time, so that none is always last."""
    turn = first_queue % len(queues) if queues else 0
    return queues[turn:] + queues[:turn]


def share_of(demand: Demand, queue: str, claim: Claim, queues_left: int) -> int:
    """Return an equal share of the remaining room, within the queue's own limit."""
    share = -(-(demand.room - claim.taken) // queues_left)
    limit = demand.queues.get(queue) if demand.queues is not None else None
    if limit is None:
        return share
    of_queue = sum(job.queue == queue for job in (*claim.started, *claim.buffered))
    return min(share, limit - of_queue)


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
    ended = [Ended(*job.fence, transition) for job, transition in unread]
    yield from settle(dialect, ended, lambda settled: tallies.rows(), now_ms)
