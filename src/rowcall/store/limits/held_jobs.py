"""Makes held jobs ready again: when a slot came free, when a period is over, and when a check finds room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from rowcall.domain.limits import HELD_PREFIX, JobLimit, Numbers, held_by, job_limits_from_text, name_of
from rowcall.store.dialect import Dialect
from rowcall.store.limits.admission import (
    CHECK_AGAIN_MS,
    DeclaredLimits,
    LimitRoom,
    load_starts,
    load_units,
    lock_limits,
    put_openings,
)
from rowcall.store.order.first_in_order import make_ready
from rowcall.store.queries import limits as queries
from rowcall.store.queries.limits import Held, Hold, OpenBreaker
from rowcall.store.statement import Plan

OPENINGS_AT_ONCE = 200
KEYS_AT_ONCE = 500
MOST_FREED = 1000


def free(dialect: Dialect, attempts: Collection[tuple[int, int | None]]) -> Plan[bool]:
    """Free the slots of these attempts; return whether that made any job ready."""
    keys = (yield from dialect.free_slots(sorted(attempts, key=itemgetter(0)))) if attempts else []
    return bool(keys and (yield from make_ready(dialect, Counter(map(held_by, keys)))))


def free_worker(dialect: Dialect, worker: str) -> Plan[bool]:
    """Free all slots of a worker that is gone; return whether that made any job ready."""
    return (yield from free(dialect, (yield from dialect.ask(queries.SLOTS_OF_WORKER, worker))))


def unhold_due(dialect: Dialect, declared: DeclaredLimits) -> Plan[int]:
    """Make ready the held jobs that may start under their rate limits; return how many keys were checked."""
    due = yield from dialect.ask(queries.DUE_OPENINGS, OPENINGS_AT_ONCE)
    if not due:
        return 0
    locked = sorted((yield from lock_limits(dialect, due)))
    if not locked:
        return 0
    held = yield from _first_held(dialect, locked)
    rooms, at_ms = yield from _rooms(dialect, held, declared, are_locked=True)
    slots = {key: _allowed(room) for key, room in rooms.items()}
    unheld = {held_by(key): count for key, count in slots.items() if count > 0}
    if unheld:
        yield from make_ready(dialect, unheld)
    waiting = [one.key for one in (yield from _first_held(dialect, [one.key for one in held]))] if held else []
    openings = {key: at for key in waiting if (at := _opens_again_ms(rooms[key], slots[key], at_ms)) is not None}
    if over := [key for key in locked if key not in openings]:
        yield from _drop_openings(dialect, over)
    if openings:
        yield from put_openings(dialect, openings)
    return len(locked)


def _first_held(dialect: Dialect, keys: Sequence[str]) -> Plan[list[Held]]:
    return (yield from dialect.ask(queries.FIRST_HELD, [held_by(key) for key in keys]))[0]


class FoundRoom(NamedTuple):
    """How many jobs of some values of `held` may run, and the value after which to continue."""

    counts: dict[str, int]
    after: str | None


def find_room(dialect: Dialect, declared: DeclaredLimits, after: str) -> Plan[FoundRoom]:
    """Find jobs that are held although their key has room: by a race, a change of the limit, or an older worker.

    It locks and writes nothing. A value that plain SQL wrote, and that does not name a key, is not a reason to wait.
    Of jobs in order, `make_ready` finds out whether the first one is held.
    """
    (held,) = yield from dialect.ask(queries.HELD_KEYS, after, KEYS_AT_ONCE)
    last = held[-1].by if len(held) == KEYS_AT_ONCE else None
    new_rows = [row for row in held if not after or row.by != after]
    limited = [row for row in new_rows if row.by.startswith(HELD_PREFIX)]
    rooms, _ = yield from _rooms(dialect, limited, declared, are_locked=False)
    counts = {held_by(key): _allowed(room) for key, room in rooms.items()}
    for row in new_rows:
        counts.setdefault(row.by, MOST_FREED)
    # SQLite's JSON ends a text at a NUL: many of these could be the same text, and would be found without end
    return FoundRoom({by: count for by, count in counts.items() if count > 0}, last if last != after else None)


def drop_stale(dialect: Dialect) -> Plan[int]:
    """Delete slots that no longer count, such as those of jobs that plain SQL ended; return how many.

    Only keys locked by this transaction are cleaned, so no other transaction can claim the slot first.
    """
    keys = yield from dialect.ask(queries.STALE_KEYS, dialect.most_locks)
    locked = (yield from lock_limits(dialect, keys)) if keys else ()
    return (yield from dialect.change(queries.DROP_STALE, sorted(locked))) if locked else 0


def _rooms(
    dialect: Dialect, held: Sequence[Held], declared: DeclaredLimits, *, are_locked: bool
) -> Plan[tuple[Mapping[str, LimitRoom], int]]:
    """Return the room of the keys, by the published limits, else by those in the rows of the jobs, else as declared."""
    if not held:
        return {}, 0
    names = [(row.key, name_of(row.key)) for row in held]
    ((at_ms, states),) = yield from dialect.ask(queries.KEY_STATES, names)
    rooms = {}
    for row in held:
        state = states[row.key]
        numbers = state.published or numbers_in(row)
        if numbers == Numbers():  # no worker publishes the limit of a queue whose jobs are all claimed by hand
            numbers = declared.numbers(name_of(row.key))
        rooms[row.key] = LimitRoom(numbers, state, at_ms)
    units = {row.key: needed for row in held if (needed := units_in(row)) is not None}
    yield from load_units(dialect, {key: rooms[key] for key in units}, are_locked=are_locked)
    for key, needed in units.items():
        rooms[key].ask(needed)
        rooms[key].units_of_first = needed
    yield from load_starts(dialect, rooms, dict.fromkeys(rooms, MOST_FREED), are_locked=are_locked)
    return rooms, at_ms


class HeldJob(NamedTuple):
    """What holds one job or has refused it, and the numbers of its limit. `used` is how many jobs run under that,
    `units` what this one needs, and `hold` what a handler asked for. `breaker` is set while it is open.
    """

    by: str | None = None
    unfit: str | None = None
    turn: int = 0
    opens_at_ms: int | None = None
    numbers: Numbers = Numbers()
    used: int = 0
    units: int | None = None
    hold: Hold | None = None
    breaker: OpenBreaker | None = None


def held_job(dialect: Dialect, job_id: int) -> Plan[HeldJob | None]:
    """Return what holds a job, without a lock; None if there is no such job."""
    for by, unfit, limits, turn, opens_at_ms in (yield from dialect.ask(queries.HELD_JOB, job_id)):
        job = HeldJob(by, unfit, turn, opens_at_ms)
        if by is None or not by.startswith(HELD_PREFIX):
            return job
        held = Held(by, limits)
        ((_, states),) = yield from dialect.ask(queries.KEY_STATES, [(held.key, name_of(held.key))])
        state = states[held.key]
        hold = next(iter((yield from dialect.ask(queries.HOLDS_OF, [held.key]))), None)
        breaker = next(iter((yield from dialect.ask(queries.BREAKERS_OF, [held.key]))), None)
        numbers = state.published or numbers_in(held)
        return job._replace(numbers=numbers, used=state.used, units=units_in(held), hold=hold, breaker=breaker)
    return None


def numbers_in(held: Held) -> Numbers:
    """Return the numbers in its row. Without any, one job is made ready; its claimer knows, or holds it again."""
    limit = _limit_in(held)
    return Numbers() if limit is None else limit.numbers


def units_in(held: Held) -> int | None:
    """Return the units in its row."""
    limit = _limit_in(held)
    return None if limit is None else limit.units


def _limit_in(held: Held) -> JobLimit | None:
    try:
        limits = job_limits_from_text(held.limits) if held.limits is not None else None
    except Exception:  # it fails when it is claimed
        limits = None
    return next((limit for limit in limits or () if limit.key == held.key), None)


def _allowed(room: LimitRoom) -> int:
    """Return how many held jobs may run now."""
    if room.held_until_ms is not None:
        return 0
    if room.numbers == Numbers():
        return 1 if not room.tries else 0
    most = MOST_FREED if room.slots is None else max(0, min(room.slots, MOST_FREED))
    if room.tries is not None:
        most = min(most, 1 if room.tries == 0 else 0)
    if room.numbers.rate is None:
        return most
    if room.units is not None:  # as if all were like the first one: claims hold others again
        return 0 if room.opens_at_ms is not None else min(most, max(1, room.units_left // max(1, room.units_of_first)))
    while room.started < most and room.opens_at_ms is None:
        room.started += 1
    return room.started


def _opens_again_ms(room: LimitRoom, slots: int, at_ms: int) -> int | None:
    """Return when to check the remaining held jobs again; None where the next freed slot does it."""
    if room.opens_at_ms is not None:
        return room.opens_at_ms
    if slots >= MOST_FREED:
        return at_ms + 1
    if room.units is not None and slots > 0:  # the next one may need fewer units
        return at_ms + CHECK_AGAIN_MS
    return at_ms + CHECK_AGAIN_MS if room.numbers == Numbers() else None


def _drop_openings(dialect: Dialect, keys: Collection[str]) -> Plan[None]:
    yield from dialect.ask(queries.DROP_OPENINGS, list(keys))
    if any("\ufffd" in key or "\0" in key for key in keys):
        yield from dialect.ask(queries.DROP_UNSPELLED_OPENINGS)
