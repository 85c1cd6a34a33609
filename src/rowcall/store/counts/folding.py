"""Fold tallies and history, and recount.

Each plan is one short transaction. Many processes may run it at once, and stop between any two.
"""

from __future__ import annotations

from collections import Counter

from rowcall.base.histogram import MOST_COUNTED, Histogram, merge
from rowcall.store.dialect import Dialect
from rowcall.store.queries import counts as queries
from rowcall.store.queries.claims import ADD_MISSING, DROP_ALL_STALE, LOCK_READY
from rowcall.store.queries.counts import MINUTE_MS, SPANS, Past, Total
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
            group = (tally.queue, tally.type, tally.outcome, tally.error_code)
            past.append(Past(row.at_ms, 0, *group, tally.jobs, tally.waits, tally.runs))
    changed = [Total(*key, _bounded(jobs)) for key, jobs in sorted(totals.items()) if jobs]
    if changed:
        yield from dialect.ask(queries.ADD_TOTALS, changed)
        yield from dialect.ask(queries.DROP_EMPTY_TOTALS)
    if past:
        yield from dialect.ask(queries.ADD_PAST, _merged(past, MINUTE_MS, 0))
    return len(removed)


def fold_history(dialect: Dialect, now_ms: int | None) -> Plan[int]:
    """Merge some history of one span that is over, and return how many rows were merged."""
    (at_ms,) = yield from dialect.ask(queries.NOW, now_ms)
    for span in reversed(SPANS):  # what has not been merged for long becomes the longest span at once
        before_ms = (at_ms - span.after_ms) // span.ms * span.ms
        for first_ms in (yield from dialect.ask(queries.FIRST_SHORTER, before_ms, span.ms)):
            begins_ms = first_ms // span.ms * span.ms
            removed = yield from dialect.ask(
                queries.REMOVE_SHORTER, begins_ms, begins_ms + span.ms, span.ms, FOLDED_AT_ONCE
            )
            if removed:
                yield from dialect.ask(queries.ADD_PAST, _merged(removed, span.ms, span.ms))
                return len(removed)
    return 0


def _merged(past: list[Past], unit_ms: int, span_ms: int) -> list[Past]:
    """Return one row for all rows of the same span, queue, type, outcome and error code, with a new `span_ms`.

    The first row of a span, queue and type has the histograms of all its rows.
    """
    jobs: Counter[tuple[int, str, str, str, str]] = Counter()
    histograms: dict[tuple[int, str, str], tuple[Histogram, Histogram]] = {}
    for one in past:
        group = (one.at_ms // unit_ms * unit_ms, one.queue, one.type)
        jobs[*group, one.outcome, one.error_code] += one.jobs
        waits, runs = histograms.setdefault(group, ({}, {}))
        merge(waits, one.waits)
        merge(runs, one.runs)
    return [
        Past(at, span_ms, queue, task, outcome, code, _bounded(count), *histograms.pop((at, queue, task), ({}, {})))
        for (at, queue, task, outcome, code), count in sorted(jobs.items())
    ]


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
