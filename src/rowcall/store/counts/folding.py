"""Fold tallies and old minutes, and recount.

Each plan is one short transaction. Many processes may run it at once, and stop between any two.
"""

from __future__ import annotations

from collections import Counter

from rowcall.base.histogram import MOST_COUNTED, Histogram, merge
from rowcall.store.counts import queries
from rowcall.store.counts.queries import HOUR_MS, MINUTE_MS, MINUTES_KEPT_MS, Past, Total
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.queries import ADD_MISSING, DROP_ALL_STALE, LOCK_READY
from rowcall.store.statement import Plan

FOLDED_AT_ONCE = 500


def fold(dialect: Dialect, *, everything: bool, now_ms: int | None) -> Plan[int]:
    """Move tallies of past minutes (or all of them) into totals and history, and return how many."""
    (at_ms,) = yield from dialect.ask(queries.NOW, now_ms)
    before_ms = at_ms + 1 if everything else at_ms // MINUTE_MS * MINUTE_MS
    removed = yield from dialect.ask(queries.REMOVE_TALLIES, before_ms, FOLDED_AT_ONCE)
    totals: Counter[tuple[str, str, str, str, int]] = Counter()
    past = []
    for row in removed:
        tally = row.tally
        if tally.status is not None:
            totals[tally.status, tally.queue, tally.type, tally.error_code, tally.attempt] += tally.jobs
        if tally.outcome is not None:
            alike = (tally.queue, tally.type, tally.outcome, tally.error_code)
            past.append(Past(row.at_ms, MINUTE_MS, *alike, tally.jobs, tally.waits, tally.runs))
    changed = [Total(*key, _bounded(jobs)) for key, jobs in sorted(totals.items()) if jobs]
    if changed:
        yield from dialect.ask(queries.ADD_TOTALS, changed)
        yield from dialect.ask(queries.DROP_EMPTY_TOTALS)
    if past:
        yield from dialect.ask(queries.ADD_PAST, merged(past, MINUTE_MS))
    return len(removed)


def fold_minutes(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """Fold minutes that are two days old into hours, and return how many minutes."""
    (at_ms,) = yield from dialect.ask(queries.NOW, now_ms)
    # whole hours only: what is removed together becomes one row
    removed = yield from dialect.ask(
        queries.REMOVE_MINUTES, (at_ms - MINUTES_KEPT_MS) // HOUR_MS * HOUR_MS, FOLDED_AT_ONCE
    )
    if removed:
        yield from dialect.ask(queries.ADD_PAST, merged(removed, HOUR_MS))
    return len(removed)


def merged(past: list[Past], span_ms: int) -> list[Past]:
    """Return one row for all rows with the same span, queue, type, outcome and error code."""
    jobs: Counter[tuple[int, str, str, str, str]] = Counter()
    histograms: dict[tuple[int, str, str, str, str], tuple[Histogram, Histogram]] = {}
    for one in past:
        key = (one.at_ms // span_ms * span_ms, one.queue, one.type, one.outcome, one.error_code)
        jobs[key] += one.jobs
        waits, runs = histograms.setdefault(key, ({}, {}))
        merge(waits, one.waits)
        merge(runs, one.runs)
    return [Past(key[0], span_ms, *key[1:], _bounded(count), *histograms[key]) for key, count in sorted(jobs.items())]


def _bounded(jobs: int) -> int:
    """Return a number that fits the column: plain SQL may have counted more."""
    return max(-MOST_COUNTED, min(MOST_COUNTED, jobs))


def recount(dialect: Dialect) -> Plan[None]:
    """Count all finished jobs again, and set missing finish times."""
    q = queries
    for query in (q.LOCK_TALLIES, q.FINISH_FINISHED, q.DROP_TOTALS, q.VOID_TALLIES, q.COUNT_FINISHED):
        yield from dialect.ask(query)


def repair_ready(dialect: Dialect) -> Plan[None]:
    """Let exactly the jobs that may be claimed have a ready row.

    Not in the transaction of a recount: others lock ready rows before tallies, or after them.
    """
    for query in (LOCK_READY, DROP_ALL_STALE, ADD_MISSING):
        yield from dialect.ask(query)
