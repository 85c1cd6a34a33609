"""Holds: keys of limits of which no job starts for a while, because a handler said so when its attempt ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rowcall.base.times import time_of
from rowcall.domain.limits import LimitNote, key_of, name_of
from rowcall.store.dialect import Dialect
from rowcall.store.limits.audit import audit
from rowcall.store.queries import limits as queries
from rowcall.store.queries.counts import NOW
from rowcall.store.queries.limits import Hold
from rowcall.store.statement import Plan


class NotedEnd(NamedTuple):
    """An attempt whose end says something to limits. Its slots must not be freed yet: they name its keys."""

    job_id: int
    lease: int
    note: LimitNote


def note_ends(dialect: Dialect, ends: Sequence[NotedEnd]) -> Plan[None]:
    """Hold the limits that these attempts name, under the keys of their jobs."""
    (now_ms,) = yield from dialect.ask(NOW)
    slots = yield from dialect.ask(queries.SLOTS_OF_JOBS, [end.job_id for end in ends])
    holds: dict[str, Hold] = {}
    for end in ends:
        until_ms = now_ms + end.note.hold_ms if end.note.until_ms is None else end.note.until_ms
        mine = [key for job_id, lease, key in slots if (job_id, lease) == (end.job_id, end.lease)]
        for key in _named(end.note.hold, mine) or [key_of(end.note.hold)]:
            if until_ms > now_ms and (key not in holds or until_ms > holds[key].until_ms):
                holds[key] = Hold(key, now_ms, until_ms, end.job_id, end.note.why or None)
    if not holds:
        return
    known = {one.key: one.until_ms for one in (yield from dialect.ask(queries.HOLDS_OF, list(holds)))}
    longer = [hold for key, hold in sorted(holds.items()) if hold.until_ms > known.get(key, 0)]
    if longer:  # in one order, so that two writers cannot deadlock
        yield from dialect.ask(queries.PUT_HOLDS, longer)
    for hold in longer:
        if hold.key not in known:  # of many jobs that fail at the same time, one is noted
            detail = f"until {time_of(hold.until_ms):%Y-%m-%d %H:%M:%S} UTC" + (
                f": {hold.reason}" if hold.reason else ""
            )
            yield from audit(dialect, "LIMIT_HELD", name_of(hold.key), f"job {hold.job_id}", detail)


def _named(name: str, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if name_of(key) == name]
