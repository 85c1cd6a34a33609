"""What the ends of attempts say to limits: a handler holds one, and failures open its breaker.

Both are rows of keys, which claims read. Ends of attempts do not lock keys: a claim that was counting at that moment
may still start what it has found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rowcall.base.times import time_of
from rowcall.domain.limits import Breaker, LimitNote, UsedUnits, key_of, name_of
from rowcall.store.dialect import Dialect
from rowcall.store.limits.admission import lock_limits, put_openings
from rowcall.store.limits.audit import audit
from rowcall.store.queries import limits as queries
from rowcall.store.queries.counts import NOW
from rowcall.store.queries.limits import Hold, OpenBreaker
from rowcall.store.statement import Plan

OUTCOMES_KEPT_MS = 24 * 3_600_000
OUTCOMES_AT_ONCE = 1000


class NotedEnd(NamedTuple):
    """An attempt whose end says something to limits. Its slots must not be freed yet: they name its keys."""

    job_id: int
    lease: int
    claimed_at_ms: int | None
    note: LimitNote

    @property
    def attempt(self) -> tuple[int, int]:
        return self.job_id, self.lease


class CountedEnd(NamedTuple):
    """An end as the breaker of one key counts it."""

    key: str
    end: NotedEnd
    breaker: Breaker


def note_ends(dialect: Dialect, ends: Sequence[NotedEnd]) -> Plan[None]:
    """Write what these attempts say to their limits, under the keys of their jobs."""
    if not ends:
        return
    (now_ms,) = yield from dialect.ask(NOW)
    slots = yield from dialect.ask(queries.SLOTS_OF_JOBS, [end.job_id for end in ends])
    holds: dict[str, Hold] = {}
    counted: list[CountedEnd] = []
    used: dict[tuple[str, int, int], UsedUnits] = {}
    for end in ends:
        note = end.note
        keys = [key for *attempt, key in slots if (*attempt,) == end.attempt]
        counted += [
            CountedEnd(key, end, note.breakers[name]) for key in keys if (name := name_of(key)) in note.breakers
        ]
        used.update({(key, *end.attempt): note.used[name] for key in keys if (name := name_of(key)) in note.used})
        if note.hold is None:
            continue
        until_ms = now_ms + note.hold_ms if note.until_ms is None else note.until_ms
        for key in [key for key in keys if name_of(key) == note.hold] or [key_of(note.hold)]:
            if until_ms > now_ms and (key not in holds or until_ms > holds[key].until_ms):
                holds[key] = Hold(key, now_ms, until_ms, end.job_id, note.why or None)
    if used:
        yield from _correct_units(dialect.at(now_ms), used)
    if holds:
        yield from _hold(dialect, holds)
    if counted:
        yield from _count(dialect.at(now_ms), counted)


def _correct_units(dialect: Dialect, used: Mapping[tuple[str, int, int], UsedUnits]) -> Plan[None]:
    """Free units that were reserved and not used. Units that were used in addition count from now on."""
    (now_ms,) = yield from dialect.ask(NOW)
    added, lowered = [], set()
    for (key, job_id, lease), units in sorted(used.items()):
        more = units.used - units.reserved
        if more > 0:  # the start is perhaps over, and deleted
            added.append((key, -job_id, now_ms, now_ms + units.span_ms, more, job_id, lease))
        elif more < 0:
            lowered.add(key)
            yield from dialect.ask(queries.LOWER_UNITS, key, job_id, lease, units.used)
    if added:
        yield from dialect.ask(queries.ADD_UNITS, added)
    # under its lock: so no two transactions wait for each other's openings
    locked = (yield from lock_limits(dialect, sorted(lowered))) if lowered else ()
    if locked:
        yield from put_openings(dialect, dict.fromkeys(locked, now_ms))


def _hold(dialect: Dialect, holds: dict[str, Hold]) -> Plan[None]:
    known = {one.key: one.until_ms for one in (yield from dialect.ask(queries.HOLDS_OF, list(holds)))}
    longer = [hold for key, hold in sorted(holds.items()) if hold.until_ms > known.get(key, 0)]
    if longer:  # in one order, so that two writers cannot deadlock
        yield from dialect.ask(queries.PUT_HOLDS, longer)
    for hold in longer:
        if hold.key not in known:  # of many jobs that fail at the same time, one is noted
            detail = _until(hold.until_ms) + (f": {hold.reason}" if hold.reason else "")
            yield from audit(dialect, "LIMIT_HELD", name_of(hold.key), f"job {hold.job_id}", detail)


def _count(dialect: Dialect, counted: Sequence[CountedEnd]) -> Plan[None]:
    """Count outcomes, open breakers, and close those whose trial succeeded."""
    (now_ms,) = yield from dialect.ask(NOW)
    keys = {one.key: one.breaker for one in counted}
    open_ones = {one.key: one for one in (yield from dialect.ask(queries.BREAKERS_OF, list(keys)))}
    trials = [one for one in counted if one.key in open_ones and _tries(one.end, open_ones[one.key])]
    failed = {one.key for one in trials if one.end.note.failed}
    closed = {one.key for one in trials} - failed
    opened = {key: open_ones[key]._replace(opened_at_ms=now_ms, until_ms=now_ms + keys[key].pause_ms) for key in failed}
    others = [one for one in counted if one.key not in open_ones]  # what began before it opened says nothing new
    if others:
        yield from dialect.ask(queries.PUT_OUTCOMES, [(one.key, now_ms, int(one.end.note.failed)) for one in others])
    for key in sorted({one.key for one in others}):
        breaker = keys[key]
        (last,) = yield from dialect.ask(queries.LAST_OUTCOMES, key, breaker.of)
        if last.outcomes >= breaker.of and last.failed >= breaker.failures * last.outcomes:
            opened[key] = OpenBreaker(key, now_ms, now_ms + breaker.pause_ms, *last)
        else:
            yield from dialect.ask(queries.TRIM_OUTCOMES, key, breaker.of)
    if opened:
        yield from dialect.ask(queries.PUT_BREAKERS, [opened[key] for key in sorted(opened)])
        yield from dialect.ask(queries.DROP_OUTCOMES, sorted(opened))
    if closed:
        yield from dialect.change(queries.CLOSE_BREAKERS, sorted(closed))
    for key in sorted(opened):
        state = f"{opened[key].failed} of the last {opened[key].outcomes} attempts failed"
        why = "the job that tried failed" if key in open_ones else state
        yield from audit(dialect, "BREAKER_OPENED", name_of(key), None, f"{_until(opened[key].until_ms)}: {why}")
    for key in sorted(closed):
        yield from audit(dialect, "BREAKER_CLOSED", name_of(key), None, "the job that tried succeeded")


def _tries(end: NotedEnd, breaker: OpenBreaker) -> bool:
    return end.claimed_at_ms is not None and end.claimed_at_ms >= breaker.until_ms


def _until(at_ms: int) -> str:
    return f"until {time_of(at_ms):%Y-%m-%d %H:%M:%S} UTC"


def end_holds(dialect: Dialect, keys: Iterable[str]) -> Plan[None]:
    """End the holds of these keys, and close their breakers, as if no attempt had failed."""
    listed = sorted(keys)
    yield from dialect.change(queries.END_HOLDS, listed)
    yield from dialect.change(queries.CLOSE_BREAKERS, listed)
    yield from dialect.ask(queries.DROP_OUTCOMES, listed)


def prune_outcomes(dialect: Dialect) -> Plan[int]:
    """Delete outcomes that are a day old: of keys that are not used any more, nothing stays."""
    (now_ms,) = yield from dialect.ask(NOW)
    return (yield from dialect.change(queries.PRUNE_OUTCOMES, now_ms - OUTCOMES_KEPT_MS, OUTCOMES_AT_ONCE))
