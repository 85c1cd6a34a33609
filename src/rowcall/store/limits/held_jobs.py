"""Jobs that are held under a limit become ready again: a place came free, a period is over, or somebody looked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from rowcall.domain.limits import Numbers, entries_from_text, name_of
from rowcall.store.dialect import Dialect
from rowcall.store.limiting import Held
from rowcall.store.limits.admission import Room, load_starts
from rowcall.store.statement import Plan

GATES_AT_ONCE = 200
KEYS_AT_ONCE = 500
MOST_FREED = 1000
LOOK_AGAIN_MS = 1000


def free(dialect: Dialect, attempts: Collection[tuple[int, int | None]]) -> Plan[bool]:
    """Free the slots of these attempts; returns whether that made any job ready."""
    keys = (yield from dialect.free_slots(sorted(attempts, key=itemgetter(0)))) if attempts else []
    return bool(keys and (yield from dialect.unhold(Counter(keys))))


def free_worker(dialect: Dialect, worker: str) -> Plan[bool]:
    """Free all slots of a worker that is gone; returns whether that made any job ready."""
    return (yield from free(dialect, (yield from dialect.slots_of_worker(worker))))


def open_gates(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """Make ready what may start under limits of rate by now; gives how many keys were looked at."""
    due = yield from dialect.due_gates(GATES_AT_ONCE, now_ms)
    if not due:
        return 0
    locked = sorted((yield from dialect.lock_limits(due)))
    if not locked:
        return 0
    held = yield from dialect.first_held(locked)
    rooms, at_ms = yield from _rooms(dialect, held, now_ms)
    places = {key: _allowed(room) for key, room in rooms.items()}
    unheld = {key: count for key, count in places.items() if count > 0}
    if unheld:
        yield from dialect.unhold(unheld)
    waiting = [one.key for one in (yield from dialect.first_held([one.key for one in held]))] if held else []
    gates = {key: at for key in waiting if (at := _opens_again_ms(rooms[key], places[key], at_ms)) is not None}
    if over := [key for key in locked if key not in gates]:
        yield from dialect.drop_gates(over)
    if gates:
        yield from dialect.put_gates(gates)
    return len(locked)


class Found(NamedTuple):
    """Of some keys under which jobs are held: how many may run, and where to look on."""

    places: dict[str, int]
    after: str | None


def find_room(dialect: Dialect, after: str, now_ms: int | None) -> Plan[Found]:
    """Look for what is held although its key has room: by a race, a change of the limit, or an older worker."""
    held = yield from dialect.held_keys(after, KEYS_AT_ONCE)
    if not held:
        return Found({}, None)
    rooms, _ = yield from _rooms(dialect, held, now_ms)
    places = {key: _allowed(room) for key, room in rooms.items()}
    unheld = {key: count for key, count in places.items() if count > 0}
    return Found(unheld, held[-1].key if len(held) == KEYS_AT_ONCE else None)


def drop_stale(dialect: Dialect) -> Plan[int]:
    """Delete slots that no longer count, as somebody ended their jobs who knew nothing of them."""
    keys = yield from dialect.stale_keys(dialect.most_keys)
    locked = (yield from dialect.lock_limits(keys)) if keys else set()
    return (yield from dialect.drop_stale(sorted(locked))) if locked else 0


def _rooms(dialect: Dialect, held: Sequence[Held], now_ms: int | None) -> Plan[tuple[Mapping[str, Room], int]]:
    """What the keys have left, by what was published, else by the rows of the jobs."""
    if not held:
        return {}, 0
    at_ms, states = yield from dialect.key_states({one.key: name_of(one.key) for one in held}, now_ms)
    rooms = {}
    for one in held:
        state = states[one.key]
        rooms[one.key] = Room(state.published or _numbers_in(one), state.used, at_ms)
    yield from load_starts(dialect, rooms, dict.fromkeys(rooms, MOST_FREED))
    return rooms, at_ms


def _numbers_in(held: Held) -> Numbers:
    """Where nobody says, one is let go: whoever claims it knows, or holds it again."""
    try:
        entries = entries_from_text(held.limits) if held.limits is not None else None
    except Exception:  # it fails when it is claimed
        entries = None
    return next((entry.numbers for entry in entries or () if entry.key == held.key), Numbers())


def _allowed(room: Room) -> int:
    """How many of those that are held may run now."""
    if room.numbers == Numbers():
        return 1
    most = MOST_FREED if room.places is None else max(0, min(room.places, MOST_FREED))
    if room.numbers.rate is None:
        return most
    while room.started < most and room.opens_at_ms is None:
        room.started += 1
    return room.started


def _opens_again_ms(room: Room, places: int, at_ms: int) -> int | None:
    """When those that are still held are to be looked at again; None where a place that comes free will do it."""
    if room.opens_at_ms is not None:
        return room.opens_at_ms
    if places >= MOST_FREED:
        return at_ms + 1
    return at_ms + LOOK_AGAIN_MS if room.numbers == Numbers() else None
