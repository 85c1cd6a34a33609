"""Admits ready jobs under their limits, and holds the others under their key.

A limit is never exceeded: its key is locked before anything is counted, until the commit. No claimer waits: jobs whose
key another claimer has locked are left for a later round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from rowcall.domain.encryption import is_hidden
from rowcall.domain.fairness import OrderedBy
from rowcall.domain.limits import (
    HELD_BY_ORDER,
    HELD_BY_OTHER_NAME,
    JobLimit,
    Numbers,
    TaskLimit,
    held_by,
    job_limits_from_text,
)
from rowcall.domain.payload import payload_from_row
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.unreadable import Unread
from rowcall.store.order.first_in_order import adopt, heads, make_ready
from rowcall.store.queries import limits as queries
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.limits import KeyState, Starts, UnitStarts
from rowcall.store.statement import Plan

HELD_AT_ONCE = 1000
CHECK_AGAIN_MS = 1000
AHEAD_AT_ONCE = 250
HIGHEST_START = 2**52
NO_STARTS = Starts(0, 0, {})
Place = tuple[int, int, int]
"""Of a job in the order of claims: priority, turn, id."""
REMEMBERED_MS = 3_600_000  # a period that is made longer finds the last starts


class DeclaredLimits(msgspec.Struct, frozen=True):
    """The limits that this process declares, by task and by queue."""

    of_task: Mapping[str, tuple[TaskLimit, ...]] = {}
    of_queue: Mapping[str, tuple[TaskLimit, ...]] = {}
    ordered: Mapping[str, OrderedBy] = {}

    def numbers(self, name: str) -> Numbers:
        """Return the numbers of the limit with that name; none if this process does not declare it."""
        declared = [bound.limit for bounds in (*self.of_queue.values(), *self.of_task.values()) for bound in bounds]
        return next((limit.numbers for limit in declared if limit.name == name), Numbers())

    def of(self, job: Ready) -> list[JobLimit]:
        """Return the limits in its row, else those of its task; and the limits of its queue."""
        limits = None if job.limits is None else job_limits_from_text(job.limits)
        if limits is None:
            limits = job_limits(self.of_task.get(job.type, ()), job.payload)
        if of_queue := self.of_queue.get(job.queue):
            limits += job_limits(of_queue, job.payload)
        if job.ordered is not None:
            order = self.ordered.get(job.type)
            orders = [job.ordered, *(() if order is None else order.others(job.ordered))]
            limits = [*limits, *(JobLimit(HELD_BY_ORDER + one, HELD_BY_ORDER, 1) for one in orders)]
        return limits if len(limits) == 1 else list({limit.key: limit for limit in limits}.values())


def job_limits(bounds: Sequence[TaskLimit], payload: str) -> list[JobLimit]:
    by_value = any(bound.depends_on_arguments for bound in bounds) and not is_hidden(payload)
    arguments = payload_from_row(payload) if by_value else None
    return [bound.for_job(arguments) for bound in bounds]


class LimitRoom:
    """The room that one key has left. Valid while the key is locked."""

    def __init__(self, numbers: Numbers, state: KeyState, now_ms: int) -> None:
        self.numbers = numbers
        self.is_published = state.published is not None
        self.used = state.used
        self.held_until_ms = state.held_until_ms
        self.tries: int | None = None
        """Of an open breaker whose pause is over: how many jobs try for all others. One may."""
        if state.breaker is not None:
            open_until_ms, self.tries = state.breaker
            if open_until_ms > now_ms:
                self.held_until_ms = max(self.held_until_ms or 0, open_until_ms)
        self.now_ms = now_ms
        self.units: UnitStarts | None = None
        """What was used, where the rate counts units."""
        self.units_of_first = 1
        """How many units the first held job needs."""
        self.closed_until_ms: int | None = None
        """When the first job may start that needed more units than are left: later ones wait behind it."""
        self.new_units: list[tuple[int, int, int]] = []
        self.admitted = 0
        self.started = 0
        self.starts = NO_STARTS

    @property
    def slots(self) -> int | None:
        """How many more jobs may run; None for any number."""
        return None if self.numbers.concurrency is None else self.numbers.concurrency - self.used - self.admitted

    @property
    def at_ms(self) -> int:
        """The time of a start now: never before the last one."""
        return max(self.now_ms, self.starts.last_at_ms)

    @property
    def opens_at_ms(self) -> int | None:
        """When the next start is allowed; None for now."""
        if self.held_until_ms is not None:
            return self.held_until_ms
        if self.tries is not None and self.tries + self.admitted > 0:
            return self.now_ms + CHECK_AGAIN_MS
        if self.numbers.rate is None or self.units is not None:
            return self.closed_until_ms
        before = self.starts.last + self.started + 1 - self.numbers.rate
        began_at = self.at_ms if before > self.starts.last else self.starts.before.get(before)
        if began_at is None or began_at + self.numbers.span_ms <= self.at_ms:
            return None
        return began_at + self.numbers.span_ms

    def ask(self, units: int, place: Place | None = None) -> None:
        """Close the room if it has fewer units left, until it has as many; or if a job that comes before waits for
        more than is left.
        """
        if self.units is None or self.numbers.rate is None or self.closed_until_ms is not None:
            return
        first = self.units.first_held
        if first is not None and place is not None and first < place:
            self.closed_until_ms = max(self.units.opens_at_ms or 0, self.now_ms + CHECK_AGAIN_MS)
        elif units > self.units_left:
            self.closed_until_ms = self.now_ms + self.numbers.span_ms
            left = self.units_left
            for at_ms, used in self._counted_units():
                left += used
                if units <= left:
                    self.closed_until_ms = at_ms + self.numbers.span_ms
                    return

    @property
    def units_left(self) -> int:
        used = sum(used for _, used in self._counted_units()) + sum(used for used, _, _ in self.new_units)
        return (self.numbers.rate or 0) - used

    def _counted_units(self) -> list[tuple[int, int]]:
        """Return the times and units that count, the first ones first. A clock that was set back frees nothing."""
        units = () if self.units is None else self.units.units
        return sorted(
            (min(at_ms, self.now_ms), used) for at_ms, used in units if at_ms + self.numbers.span_ms > self.now_ms
        )

    def keep_units(self) -> None:
        """Count the units that were just recorded."""
        if self.units is not None:
            recorded = [(self.now_ms, used) for used, _, _ in self.new_units]
            last = max(0, self.units.last) + len(recorded)
            self.units = self.units._replace(last=last, units=[*self.units.units, *recorded])
            self.new_units = []

    @property
    def has_no_slot(self) -> bool:
        return (slots := self.slots) is not None and slots <= 0

    @property
    def is_full(self) -> bool:
        return self.has_no_slot or self.opens_at_ms is not None

    def admit(self, limit: JobLimit, job: Ready) -> None:
        self.admitted += 1
        self.started += 1
        if self.units is not None:
            self.new_units.append((1 if limit.units is None else limit.units, job.id, job.lease))

    def new_starts(self, key: str) -> list[tuple[object, ...]]:
        if self.units is not None:
            until, number = self.now_ms + self.numbers.span_ms, max(0, self.units.last) + 1
            return [(key, number + index, self.now_ms, until, *one) for index, one in enumerate(self.new_units)]
        until = self.at_ms + max(self.numbers.span_ms, REMEMBERED_MS)
        first = self.starts.last + 1
        return [(key, number, self.at_ms, until) for number in range(first, first + self.started)]


Reserve = Callable[[Ready, bool], bool]
"""Reserves room for a job in the worker, if there is any. True is for a job that must not wait in a buffer: under a
rate it has started when it is claimed."""


class Admission:
    """What one transaction has counted and admitted. `left` says that some jobs were left for a later round, `again`
    that another round would find a job at once. `locked` are jobs that others have locked, or that come
    after such a job in order: they are left, too.
    """

    def __init__(self, declared: DeclaredLimits, worker: str | None = None) -> None:
        self.declared = declared
        self._worker = worker
        self.held = 0
        self.left = False
        self.crowded = False
        self.again = False
        self.locked: set[int] = set()
        self._locked_orders: set[str] = set()
        self._rooms: dict[str, LimitRoom] = {}
        self._foreign: set[str] = set()
        self._heads: dict[str, int | None] = {}
        self._ours: list[int] = []
        self.unread = Unread()

    @property
    def enough(self) -> bool:
        """Whether this transaction has done its part; the next one continues."""
        return self.crowded or self.held >= HELD_AT_ONCE

    @property
    def moved(self) -> bool:
        return bool(self.held or self._ours)

    def admit(self, dialect: Dialect, ready: Sequence[Ready], reserve: Reserve) -> Plan[list[Ready]]:
        """Return the jobs that may be claimed now, in order; jobs whose key is full are held."""
        if self.declared.ordered:
            self._locked_orders |= yield from adopt(dialect, ready, self.declared.ordered)
            self.locked |= {job.id for job in ready if job.ordered in self._locked_orders}
            ready = [job for job in ready if job.id not in self.locked]
        needs = yield from self._examine(dialect, ready, self.unread)
        admitted, slots, full = [], [], []
        for job in ready:
            limits = needs.get(job.id)
            if limits is None:
                continue
            rooms = [self._rooms[limit.key] for limit in limits if limit.key in self._rooms]
            if len(rooms) < len(limits):
                continue
            self._ask(job, limits)
            if True in [room.is_full for room in rooms] or self._is_behind(job, limits):
                full.append(job)
            elif not reserve(job, any(room.numbers.rate is not None for room in rooms)):
                break  # later jobs must not overtake it
            else:
                admitted.append(job)
                for room, limit in zip(rooms, limits, strict=True):
                    room.admit(limit, job)
                slots += [(limit.key, job.id, job.lease) for limit in limits]
        if slots:
            yield from dialect.ask(queries.RESERVE_SLOTS, slots, self._worker)
            self._ours += [job_id for _, job_id, _ in slots]
            yield from self._record_starts(dialect, {key for key, _, _ in slots})
        if full:
            yield from self._hold(dialect, full, needs)
        return admitted

    def sift(self, dialect: Dialect, queue: str, types: Sequence[str], taken: set[int]) -> Plan[None]:
        """Read further ahead, and hold jobs that cannot run, so that later jobs do not wait behind them."""
        while not self.enough:
            ahead = yield from dialect.ready_ahead(queue, types, AHEAD_AT_ONCE)
            ahead = [job for job in ahead if job.id not in taken]
            needs = yield from self._examine(dialect, ahead, Unread())
            full = [
                job
                for job in ahead
                if self._ask(job, needs.get(job.id, ())) or self._is_behind(job, needs.get(job.id, ()))
            ]
            before = self.held
            if full:
                yield from self._hold(dialect, full, needs)
            if self.held - before < len(ahead) or not ahead:
                return

    def _ask(self, job: Ready, limits: Iterable[JobLimit]) -> bool:
        """Ask for the units of a job. Return whether any of its keys is full."""
        place = -job.priority, job.id if job.turn is None else job.turn, job.id
        rooms = [(self._rooms[limit.key], limit) for limit in limits if limit.key in self._rooms]
        for room, limit in rooms:
            room.ask(1 if limit.units is None else limit.units, place)
        return any(room.is_full for room, _ in rooms)

    def _examine(self, dialect: Dialect, ready: Sequence[Ready], unread: Unread) -> Plan[dict[int, list[JobLimit]]]:
        """Lock and count the keys of these jobs that are not known yet; a job that cannot be read has no keys."""
        try:
            needs = {job.id: self.declared.of(job) for job in ready}
        except Exception:  # one of them cannot be read: find out which
            read = {job.id: unread.read(job, "the column limits", self.declared.of) for job in ready}
            needs = {job_id: need for job_id, need in read.items() if need is not None}
        limits: dict[str, JobLimit] = {}
        strictest: dict[str, Numbers] = {}
        for need in needs.values():
            for limit in need:
                first = limits.setdefault(limit.key, limit)
                if limit is not first and limit != first:  # rows of processes that do not agree
                    known = strictest.get(limit.key, first.numbers)
                    strictest[limit.key] = known.strictest(limit.numbers)
        unknown = [key for key in limits if key not in self._rooms and key not in self._foreign]
        budget = dialect.most_locks - len(self._rooms) - len(self._foreign)
        if len(unknown) > budget:
            self.crowded = True
            unknown = unknown[:budget]
        if unknown:
            locked = yield from lock_limits(dialect, unknown)
            self._foreign.update(key for key in unknown if key not in locked)
            if locked:
                names = [(key, limits[key].name) for key in sorted(locked)]
                ((now_ms, states),) = yield from dialect.ask(queries.KEY_STATES, names)
                for key, state in states.items():
                    numbers = state.published or limits[key].numbers
                    self._rooms[key] = LimitRoom(numbers, state, now_ms)
                if orders := [key for key in locked if key.startswith(HELD_BY_ORDER)]:
                    self._heads.update((yield from heads(dialect, orders)))
        for key, limit in limits.items():
            room = self._rooms.get(key)
            if room is not None and not room.is_published:
                numbers = strictest.get(key, limit.numbers)
                if room.numbers != numbers:
                    room.numbers = room.numbers.strictest(numbers)
        self.left |= not self._foreign.isdisjoint(limits)
        by_units = {limit.key for need in needs.values() for limit in need if limit.units is not None}
        yield from load_units(dialect, {key: self._rooms[key] for key in by_units if key in self._rooms})
        wanted = Counter([limit.key for need in needs.values() for limit in need])
        yield from load_starts(dialect, {key: self._rooms[key] for key in limits if key in self._rooms}, wanted)
        return needs

    def _record_starts(self, dialect: Dialect, keys: set[str]) -> Plan[None]:
        rated = {key: self._rooms[key] for key in sorted(keys) if self._rooms[key].numbers.rate is not None}
        if not rated:
            return
        if by_units := {key: room for key, room in rated.items() if room.units is not None}:
            yield from dialect.ask(queries.DROP_OVER_UNITS, list(by_units))
            yield from dialect.ask(
                queries.RECORD_UNITS, [new for key in by_units for new in by_units[key].new_starts(key)]
            )
            for room in by_units.values():
                room.keep_units()
            rated = {key: room for key, room in rated.items() if key not in by_units}
        if not rated:
            return
        starts = [start for key, room in rated.items() for start in room.new_starts(key)]
        yield from dialect.ask(queries.RECORD_STARTS, starts)
        over = {key: room.starts.last + room.started - (room.numbers.rate or 0) for key, room in rated.items()}
        # the last start was allowed only after each of these
        old = {key: number for key, number in over.items() if number > 0}
        if old:
            yield from dialect.ask(queries.DROP_STARTS, list(old.items()))

    def _hold(self, dialect: Dialect, full: Sequence[Ready], needs: Mapping[int, list[JobLimit]]) -> Plan[None]:
        """Hold each job under its first full key. A key whose slot is just being freed is not full."""
        taken = {
            limit.key: self._rooms[limit.key].used
            for job in full
            for limit in needs[job.id]
            if limit.key in self._rooms and self._rooms[limit.key].has_no_slot
        }
        steady = (yield from steady_slots(dialect, taken, self._ours)) if taken else {}
        held: dict[int, str] = {}
        spare: Counter[str] = Counter()
        openings: dict[str, int] = {}
        for job in full:
            keys = [limit.key for limit in needs[job.id] if limit.key in self._rooms]
            key = next((key for key in keys if self._waits_for_head(job, key)), None)
            key = key or next((key for key in keys if self._stays_full(key, steady)), None)
            if key is None:
                self.left = True
                continue
            of_other = key.startswith(HELD_BY_ORDER) and key != f"{HELD_BY_ORDER}{job.ordered}"
            held[job.id] = HELD_BY_OTHER_NAME + key.removeprefix(HELD_BY_ORDER) if of_other else held_by(key)
            opens_at_ms = self._rooms[key].opens_at_ms
            if opens_at_ms is not None:
                openings[key] = opens_at_ms
            spare.update(other for other in keys if not self._rooms[other].is_full and other not in self._heads)
        if held:
            self.held += yield from dialect.change(queries.HOLD, held)
        if openings:
            yield from put_openings(dialect, openings)
        # a job that was made ready for a slot of another key leaves that slot to the next one
        slots = {key: min(count, self._rooms[key].slots or count) for key, count in spare.items()}
        if slots and (yield from make_ready(dialect, {held_by(key): count for key, count in slots.items()})):
            self.again = True

    def _is_behind(self, job: Ready, limits: Iterable[JobLimit]) -> bool:
        """Return whether an earlier job of the same value has not ended, or may not have."""
        if not self._heads:
            return False
        heads = [self._heads.get(limit.key, job.id) for limit in limits]
        return any(head is None or head < job.id for head in heads)

    def _waits_for_head(self, job: Ready, key: str) -> bool:
        head = self._heads.get(key)
        return head is not None and head < job.id

    def _stays_full(self, key: str, steady: Mapping[str, int]) -> bool:
        room = self._rooms[key]
        if room.opens_at_ms is not None:
            return True
        concurrency = room.numbers.concurrency
        return concurrency is not None and room.has_no_slot and steady[key] + room.admitted >= concurrency


def load_units(dialect: Dialect, rooms: Mapping[str, LimitRoom], *, are_locked: bool = True) -> Plan[None]:
    """Read what was used of these keys, whose rates count units, unless that is known."""
    unknown = {key: room for key, room in rooms.items() if room.numbers.rate is not None and room.units is None}
    if not unknown:
        return
    (starts,) = yield from dialect.ask(queries.RECENT_UNITS, sorted(unknown))
    for key, room in unknown.items():
        room.units = starts[key]
        if are_locked and any(at_ms - room.now_ms > room.numbers.span_ms for at_ms, _ in room.units.units):
            yield from dialect.ask(queries.REWIND_STARTS, key, room.now_ms)  # the clock was set back


def load_starts(
    dialect: Dialect, rooms: Mapping[str, LimitRoom], starts_needed: Mapping[str, int], *, are_locked: bool = True
) -> Plan[None]:
    """Read the last starts of these keys, as far as the next ones depend on them. Repair them only under their locks:
    others may have started more since the time of an unlocked room.
    """
    asked = [
        (key, room.numbers.rate, max(1, min(starts_needed[key], room.numbers.rate)))
        for key, room in rooms.items()
        if room.numbers.rate is not None and room.units is None
    ]
    if not asked:
        return
    (found,) = yield from dialect.ask(queries.RECENT_STARTS, asked)
    for key, starts in found.items():
        room = rooms[key]
        if starts.last > HIGHEST_START:  # plain SQL wrote it, and there may be no higher number
            if are_locked:
                yield from dialect.ask(queries.DROP_STARTS, [(key, starts.last)])
            starts = NO_STARTS
        room.started = 0
        room.starts = starts
        if starts.last_at_ms - room.now_ms > room.numbers.span_ms:
            # the clock was set back: how long ago they were is unknown, and now is safe
            if are_locked:
                yield from dialect.ask(queries.REWIND_STARTS, key, room.now_ms)
            room.starts = Starts(
                starts.last, room.now_ms, {number: min(at, room.now_ms) for number, at in starts.before.items()}
            )


def lock_limits(dialect: Dialect, keys: Sequence[str]) -> Plan[Collection[str]]:
    """Lock keys until the transaction ends; return the keys that no other transaction has locked. Never waits."""
    for locked in (yield from dialect.ask(queries.LOCK_LIMITS, keys)):
        return locked
    return keys  # nothing is locked where no other transaction can write


def steady_slots(dialect: Dialect, used: Mapping[str, int], ours: Collection[int]) -> Plan[Mapping[str, int]]:
    """Return how many slots of each key stay in use until the transaction ends, without the slots of our jobs."""
    for steady in (yield from dialect.ask(queries.STEADY_SLOTS, list(used), list(ours))):
        return Counter(steady)
    return used


def put_openings(dialect: Dialect, at_ms: Mapping[str, int]) -> Plan[None]:
    # in one order, so that two writers cannot deadlock
    yield from dialect.ask(queries.PUT_OPENINGS, sorted(at_ms.items()))


def quotas(dialect: Dialect) -> Plan[dict[str, Numbers]]:
    """Return the numbers that workers have published, by the name of the limit."""
    return {one.name: one.declared for one in (yield from dialect.ask(queries.QUOTAS))}


def put_quotas(dialect: Dialect, published: Mapping[str, Numbers]) -> Plan[None]:
    given = [(name, *one.stored) for name, one in sorted(published.items())]
    yield from dialect.ask(queries.PUT_QUOTAS, given)
