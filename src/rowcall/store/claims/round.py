"""The round of a worker, and the claim by hand: settle, expire, stage, claim, in one transaction.

A claim is find → admit → write: find the first ready jobs of a few queues in turn, admit the ones that have room here
and under their limits, write a row for each into the table of claims.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar, cast

from rowcall.domain.job import Status, is_paused
from rowcall.store.claims.demand import FEWEST_QUEUES, LEAST_SHARE, Demand, RoundResult, in_turn
from rowcall.store.columns import text
from rowcall.store.counts.tallies import Tallies
from rowcall.store.dialect import Dialect
from rowcall.store.ends.after import Locked, after_end, check_parents, check_unsure_edges
from rowcall.store.ends.attempts import Ended, MakeTallies, attempts_of, drop_void, settle, write_ended
from rowcall.store.ends.waiting import end_overdue, expire
from rowcall.store.jobs.inspect import get_all
from rowcall.store.jobs.unreadable import Unread, Unreadable
from rowcall.store.limits.admission import Admission
from rowcall.store.limits.held_jobs import free, unhold_due
from rowcall.store.order.fair_turns import serve
from rowcall.store.queries import claims as queries
from rowcall.store.queries.claims import (
    NOTHING_KNOWN,
    Fence,
    Pair,
    Ready,
    Starts,
    Work,
    all_plain,
    any_fair,
    any_of,
    any_retry,
    takes,
    task_of,
)
from rowcall.store.queries.counts import NOW
from rowcall.store.queries.ends import LOCK_FREE_JOBS, Success
from rowcall.store.queries.jobs import ANY_TAG, RETAG_DUE, STAGE
from rowcall.store.recovery.recover import recover_expired
from rowcall.store.schedules.ticks import tick
from rowcall.store.statement import Plan, Query, before_long

STAGED_AT_ONCE = 1000
STALE_AT_ONCE = 100

V = TypeVar("V")


def round_of_work(
    dialect: Dialect,
    ended: Sequence[Ended | Success],
    make_tallies: MakeTallies | None,
    demand: Demand,
    *,
    late: Sequence[tuple[int, int]] = (),
    abandoned: Collection[tuple[int, int]] = (),
    void: Sequence[Fence] = (),
    before_settle: Callable[[], None] | None = None,
) -> Plan[RoundResult]:
    """Run one round of a worker. A worker that is no longer registered (it was declared lost) claims nothing.

    `late` are attempts (ids and leases) whose handlers ended after they were settled. The handlers of
    `abandoned` attempts still run, so their slots under limits are not freed. `void` are attempts whose jobs were
    ended or changed from outside. `before_settle` is called just before the statement that takes most of the time.
    """
    writing = write_ended(dialect, ended, make_tallies, demand.owner)
    written = yield from (writing if before_settle is None else before_long(writing, before_settle))
    settled, cancelled, tallies, followed = written
    left = (yield from drop_void(dialect, void)) if void else []
    if demand.resume:
        known = list(demand.resume)
        (work,) = yield from dialect.ask(queries.FIND_OTHER_WORK_AND_LOCK, demand.worker, known)
    else:
        work = yield from find_work(dialect, demand, queries.FIND_WORK_AND_LOCK)
    if ended or late:
        freed = [*attempts_of(ended, abandoned), *(one for one in late if one not in abandoned)] if work.slots else ()
        if (yield from after_end(dialect, settled, tallies, freed, work.concerned, followed=followed)):
            work = yield from find_work(dialect, demand)
    if not work.registered:
        return RoundResult(work, settled=settled, cancelled=cancelled, void=left)
    result = yield from Round(dialect, demand).run(work)
    result.settled, result.cancelled, result.void = settled, cancelled, left
    return result


def find_work(dialect: Dialect, demand: Demand, query: Query[Work] = queries.FIND_WORK) -> Plan[Work]:
    """Return what there is to do, with the few queues that come next."""
    few, ring = demand.queues_at_once, demand.ring
    return (yield from dialect.ask(query, demand.worker, demand.last_queue, few, ring and ring[:few]))[0]


def claim_by_hand(dialect: Dialect, demand: Demand) -> Plan[RoundResult]:
    """Claim without a worker process. Jobs whose lease has expired are recovered first: no worker may be running."""
    yield from recover_expired(dialect, demand.on_end)
    work = yield from find_work(dialect, demand)
    return (yield from Round(dialect, demand).run(work))


class Round:
    """Claims jobs in a transaction that it is a part of: find → admit → write."""

    def __init__(self, dialect: Dialect, demand: Demand) -> None:
        self._dialect = dialect
        self._demand = demand
        self._admission = Admission(demand.limits, None if demand.lease_ms is not None else demand.worker)
        self._lost_left = demand.lost_ahead
        self._last_left = demand.last_ahead
        self._made_ready: set[int] = set()
        self._batch_room = dict(demand.batch_room)
        self._queues: list[str] = []
        self._plenty: list[str] = []
        self._visited: list[str] = []
        self._wanted: dict[str, list[str]] = {}
        self._ring = demand.ring
        self._searched = demand.queues_at_once
        """How many queues were searched, of the ring or of all."""
        self._is_limited = False
        """Whether any job that was found may run under a limit."""

    def run(self, work: Work) -> Plan[RoundResult]:
        """Stage what is due, and claim what there is room for. `work` is what was found."""
        work, stuck = yield from self._stage(work)
        self._dialect = self._dialect.at(work.now_ms)  # the whole claim, and what is reported of it, has one time
        self._result = result = RoundResult(work, stuck=stuck, last_queue=self._demand.last_queue)
        self._add(work.ready)
        while queues := (yield from self._next_queues()):
            yield from self._visit(queues)
            is_full = self._room <= 0 and not any(self._batch_room.values())
            if is_full or (self._is_limited and self._admission.enough) or result.is_cut:
                break
        yield from self._finish()
        return result

    @property
    def _room(self) -> int:
        return self._demand.room - self._result.taken

    def _stage(self, work: Work) -> Plan[tuple[Work, bool]]:
        """Do what is due by the clock. Return the work after that, and whether others have locked all that is due."""
        dialect, demand = self._dialect, self._demand
        stuck = False
        if work.edges_unsure:
            any_ready = yield from check_unsure_edges(dialect)
            if (yield from check_parents(dialect)) or any_ready:
                work = yield from find_work(dialect, demand)
        if work.next_at_ms is not None and work.next_at_ms <= work.now_ms:
            ticked = work.is_wake_due and (yield from tick(dialect))
            expired = yield from expire(dialect, work.concerned)
            expired += yield from end_overdue(dialect, work.concerned, demand.on_end)
            staged = yield from stage(dialect)
            opened = work.is_wake_due and (yield from unhold_due(dialect, demand.limits))
            stuck = not (expired or staged or ticked or opened)
            work = yield from find_work(dialect, demand)
        return work, stuck

    # queues, in turn

    def _next_queues(self) -> Plan[list[str]]:
        """Return a few queues that were not visited yet, or else a few that may have more."""
        while not self._queues and not self._result.knows_all:
            yield from self._find_queues()
        if not self._queues:
            self._queues, self._plenty = self._plenty, []
        few = max(FEWEST_QUEUES, self._room // LEAST_SHARE)
        queues, self._queues = self._queues[:few], self._queues[few:]
        return queues

    def _find_queues(self) -> Plan[None]:
        """Search twice as many queues as before."""
        ready, ring, before = self._result.work.ready, self._ring, self._searched
        self._searched *= 3
        last_queue = "" if ring else [*ready][-1][0]
        more = ring and ring[before : self._searched]
        (found,) = yield from self._dialect.ask(queries.FIND_QUEUES, last_queue, 2 * before, more)
        known = {queue for queue, _ in ready}
        self._add({pair: start for pair, start in found.items() if pair[0] not in known})

    def _add(self, ready: Starts) -> None:
        """Add the queues of these ready jobs. If all queues are served, fewer than were searched are all there are."""
        demand, result = self._demand, self._result
        keys_by_queue = wanted_types(demand, ready, result.work.paused)
        result.work.ready.update(ready)
        in_all = len(self._ring) if self._ring is not None else len({queue for queue, _ in result.work.ready}) + 1
        result.knows_all = bool(demand.resume) or self._searched >= in_all
        self._wanted.update(keys_by_queue)
        self._queues += in_turn(list(keys_by_queue), demand.last_queue)

    def _visit(self, queues: Sequence[str]) -> Plan[None]:
        """Claim an equal share of each queue."""
        result, admission = self._result, self._admission
        already = len(result.started), len(result.buffered), len(result.joining)
        for position, queue in enumerate(queues):
            share = share_of(self._demand, queue, result, len(queues) - position)
            if share > 0:
                self._visited.append(queue)
                if (yield from self._find_and_admit(queue, share)):
                    self._plenty.append(queue)
            if result.is_cut:  # buffer no more jobs of any queue: otherwise a slot might never come free
                break
        yield from self._write(
            result.started[already[0] :], result.buffered[already[1] :], result.joining[already[2] :]
        )
        if self._batch_room:
            yield from self._fill_batches(queues)
        if admission.unread.jobs:
            result.unread += yield from self._claim_to_fail(list(admission.unread.jobs.values()))
            admission.unread.jobs.clear()

    # find and admit

    def _find_and_admit(self, queue: str, share: int) -> Plan[bool]:
        """Admit the first jobs of a queue. Return whether there may be more."""
        admission, types = self._admission, self._wanted[queue]
        held, locked = admission.held, len(admission.locked)
        first = yield from self._find(queue, share)
        if not first and not self._demand.resume and (yield from self._drop_stale(queue)):
            return True
        ready = admission.unread.readable(first) if any_retry(first) else first
        if self._any_limited(ready):
            admitted = yield from admission.admit(self._dialect, ready, self._reserve)
            if admission.held > held and len(first) == share:
                yield from admission.sift(self._dialect, queue, types, {job.id for job in admitted})
        else:
            admitted = self._reserve_all(ready)
        moved = admitted or admission.held > held or len(admission.locked) > locked or admission.unread.jobs
        return len(first) == share and bool(moved)

    def _any_limited(self, ready: Sequence[Ready]) -> bool:
        """Return whether any of these jobs may run under a limit."""
        limits = self._demand.limits
        any_limited = not all_plain(ready) and any(job.limits is not None or job.ordered is not None for job in ready)
        if limits.of_task or limits.of_queue or limits.ordered:
            declared = limits.of_task.keys() | limits.ordered.keys()
            any_limited = any_limited or any_of(ready, declared, limits.of_queue)
        self._is_limited |= any_limited
        return any_limited

    def _find(self, queue: str, share: int) -> Plan[list[Ready]]:
        dialect, types, result, locked = self._dialect, self._wanted[queue], self._result, self._admission.locked
        # jobs that were held may just have become ready, before the first one that was found
        starts = self._demand.resume or (NOTHING_KNOWN if self._admission.again else result.work.ready)
        first = yield from dialect.ready_jobs(queue, types, share + len(locked), starts)
        if not first and starts is result.work.ready and any(starts[queue, key] for key in types):
            # others may have claimed that first one, and jobs that come before it may have been committed
            first = yield from dialect.ready_jobs(queue, types, share + len(locked))
        return [job for job in first if job.id not in locked][:share] if locked else first

    def _drop_stale(self, queue: str) -> Plan[bool]:
        """Where ready jobs were seen, but none was found: replace rows that stand before others and fit no job."""
        dropped: list[int] = []
        for key in self._wanted[queue]:
            dropped += yield from self._dialect.ask(queries.DROP_STALE, queue, key, STALE_AT_ONCE)
        again = sorted(set(dropped) - self._made_ready)  # a row that never fits must not keep the round busy
        self._made_ready.update(again)
        if again:
            yield from self._dialect.ask(queries.MAKE_READY, again)
        return bool(dropped)

    def _reserve_all(self, ready: list[Ready]) -> list[Ready]:
        """Reserve room for as many jobs as possible. If all may wait, use slices: a call for each job is slow."""
        all_may_wait = all_plain(ready) or not any(map(self._is_marked, ready))
        batched = self._demand.batches.keys() | self._batch_room.keys()
        if not all_may_wait or (batched and any(job.type in batched for job in ready)):
            admitted = []
            for job in ready:
                if not self._reserve(job):
                    break
                admitted.append(job)
            return admitted
        slots = max(0, self._demand.slots - len(self._result.started))
        self._result.started += ready[:slots]
        self._result.buffered += ready[slots:]
        return ready

    def _reserve(self, job: Ready, at_once: bool = False) -> bool:
        """Give the job a slot, or put it into the buffer unless `at_once`; return False if there is no room."""
        result, demand = self._result, self._demand
        if self._batch_room.get(job.type):
            self._batch_room[job.type] -= 1
            result.joining.append(job)
        elif len(result.started) < demand.slots:
            result.started.append(job)
            if job.type in demand.batches:
                self._batch_room[job.type] = demand.batches[job.type] - 1
        elif at_once or job.type in demand.batches:
            result.slot_needed = result.is_cut = True
            return False
        elif result.taken >= demand.room:
            return False
        elif self._may_wait(job):
            result.buffered.append(job)
        else:
            result.is_cut = True
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

    def _fill_batches(self, queues: Sequence[str]) -> Plan[None]:
        """Fill up the batches that have a slot."""
        for queue in queues:
            for key in self._wanted[queue]:
                task = task_of(key)
                if room := self._batch_room.get(task):
                    starts = self._result.work.ready
                    first = yield from self._dialect.ready_jobs(queue, [key], room, starts)
                    ready = self._admission.unread.readable(first) if any_retry(first) else first
                    if self._any_limited(ready):
                        ready = yield from self._admission.admit(self._dialect, ready, lambda job, at_once: True)
                    self._batch_room[task] -= len(ready)
                    self._result.joining += ready
                    yield from self._write([], [], ready)

    # write

    def _write(self, started: Sequence[Ready], buffered: Sequence[Ready], joining: Sequence[Ready]) -> Plan[None]:
        """Write the claims. Jobs that a kill must charge are marked as started."""
        waiting = [*buffered, *joining]
        marked = [] if all_plain(waiting) else [job for job in waiting if self._is_marked(job)]
        if marked:
            ids = {job.id for job in marked}
            self._result.marked |= ids
            waiting = [job for job in waiting if job.id not in ids]
        if not (started or marked or waiting):
            return
        yield from self._claim([*started, *marked], waiting)

    def _claim(self, started: Sequence[Ready], buffered: Sequence[Ready]) -> Plan[list[Ready]]:
        """Claim jobs, and return the ones that were claimed."""
        jobs, demand = [*started, *buffered], self._demand
        for job in jobs:
            job.holder = demand.holder
        claimed = yield from self._dialect.claim(started, buffered, demand.owner, demand.lease_ms)
        if claimed is not None:  # perhaps the ready rows of the others did not fit: write them again, and try once more
            yield from self._dialect.ask(queries.MAKE_READY, sorted({job.id for job in jobs} - claimed))
            now, later = ([job for job in part if job.id not in claimed] for part in (started, buffered))
            late = yield from self._dialect.claim(now, later, demand.owner, demand.lease_ms)
            if late is not None:
                claimed |= late
                yield from self._drop([job for job in jobs if job.id not in claimed])
                return [job for job in jobs if job.id in claimed]
        return jobs

    def _drop(self, jobs: Sequence[Ready]) -> Plan[None]:
        """Leave out jobs that could not be claimed. Free their slots, but not those of a running attempt."""
        ids = [job.id for job in jobs]
        self._result.drop(ids)
        stored = yield from get_all(self._dialect, ids)
        running = {(job.id, job.lease) for job in stored.values() if job.status is Status.RUNNING}
        yield from free(self._dialect, {(job.id, job.lease) for job in jobs} - running)

    def _is_marked(self, job: Ready) -> bool:
        return job.lost > 0 or (self._last_left is not None and job.attempt >= job.max_attempts)

    def _claim_to_fail(self, unread: list[Unreadable]) -> Plan[list[Unreadable]]:
        """Claim jobs that cannot be read, fail them, and return them. Jobs that others have locked are left."""
        ids = {one.job.id for one in unread}
        unlocked = set((yield from self._dialect.ask(LOCK_FREE_JOBS, sorted(ids))))
        self._admission.locked |= ids - unlocked
        jobs = [one.job for one in unread if one.job.id in unlocked]
        claimed = {job.id for job in (yield from self._claim(jobs, []))} if jobs else set()
        ours = [one for one in unread if one.job.id in claimed]
        yield from _fail(self._dialect, ours)
        return ours

    def _finish(self) -> Plan[None]:
        result, admission, visited = self._result, self._admission, self._visited
        if visited:  # if it has visited all queues, the next round starts one queue later
            result.last_queue = visited[0 if result.knows_all and len(visited) >= len(self._wanted) else -1]
        moved = result.taken or result.joining or result.unread or admission.held
        any_left = bool(moved and (self._queues or self._plenty or not result.knows_all))
        jobs = result.jobs
        if any_fair(jobs):
            yield from serve(self._dialect, [job for job in jobs if job.fair is not None])
        retried = {} if all_plain(jobs) else {job.id: job for job in jobs if job.attempt > 1}
        if retried:
            for job_id, code, detail in (yield from self._dialect.ask(queries.ERRORS_OF, list(retried))):
                job = retried[cast("int", job_id)]
                job.error_code, job.error_detail = text(code), text(detail)
        result.left = admission.left or bool(admission.locked)
        crowded = admission.crowded and admission.moved
        result.more = any_left or admission.again or crowded or bool(self._demand.resume)


def stage(dialect: Dialect) -> Plan[int]:
    """Make due jobs pending, and return how many."""
    if any((yield from dialect.ask(ANY_TAG))):
        (now_ms,) = yield from dialect.ask(NOW)
        dialect = dialect.at(now_ms)  # both statements find the same jobs
        yield from dialect.ask(RETAG_DUE, STAGED_AT_ONCE)
    return (yield from dialect.change(STAGE, STAGED_AT_ONCE))


def wanted_types(demand: Demand, ready: Iterable[Pair], paused: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the keys of ready jobs that this claimer may claim, by queue."""
    keys_by_queue: dict[str, list[str]] = {}
    for queue, key in ready:
        if (demand.queues is None or queue in demand.queues) and takes(demand.types, key):
            task = task_of(key)
            if not (paused and any(is_paused(queue, name, paused) for name in (task, demand.aliases.get(task, task)))):
                keys_by_queue.setdefault(queue, []).append(key)
    return keys_by_queue


def share_of(demand: Demand, queue: str, result: RoundResult, queues_left: int) -> int:
    """Return an equal share of the remaining room, within the queue's own limit."""
    share = -(-(demand.room - result.taken) // queues_left)
    limit = demand.queues.get(queue) if demand.queues is not None else None
    if limit is None:
        return share
    of_queue = sum(job.queue == queue for job in (*result.started, *result.buffered))
    return min(share, limit - of_queue)


def made(dialect: Dialect, claimed: Iterable[Ready], make: Callable[[Ready], V]) -> Plan[list[V]]:
    """Return `make(job)` for each claimed job. A job for which this raises fails."""
    unread = Unread()
    values = [value for job in claimed if (value := unread.read(job, "the row", make)) is not None]
    if unread.jobs:
        yield from _fail(dialect, list(unread.jobs.values()))
    return values


def _fail(dialect: Dialect, unread: list[Unreadable]) -> Plan[None]:
    tallies = Tallies()
    for job, transition in unread:
        tallies.enter(job.queue, job.type, job.attempt, transition, None, None)
    ended = [Ended(*job.fence, transition) for job, transition in unread]
    yield from settle(dialect, ended, lambda settled: tallies.rows(), locked=Locked.SKIP)
