"""What ended attempts add to the counts and the history, one row for all that ended in the same way; folding, recounts.

Durations are counted in histograms, so a percentile is within 6 %. Histograms are merged by addition.

Each plan is one short transaction. Many processes may run it at once, and stop between any two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence

from rowcall.base.times import milliseconds_of
from rowcall.domain.job import FINISHED, Job, Status
from rowcall.domain.lifecycle import Move, target
from rowcall.domain.outcome import EXPIRED_CODE, OUTCOMES, Transition
from rowcall.store.dialect import Dialect
from rowcall.store.queries import counts as queries
from rowcall.store.queries.claims import ADD_MISSING, DROP_ALL_STALE, LOCK_READY
from rowcall.store.queries.counts import (
    LONGEST_MS,
    MINUTE_MS,
    MOST_ATTEMPTS_COUNTED,
    MOST_SUMMED,
    SPANS,
    Histogram,
    Past,
    Tally,
    Total,
)
from rowcall.store.queries.flows import Touched
from rowcall.store.statement import Plan

FOLDED_AT_ONCE = 500


class Tallies:
    """Filled within one transaction, and written with it."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str, int, Move, str | None, bool], Tally] = {}

    def enter(
        self,
        queue: str,
        task: str,
        attempt: int,
        transition: Transition,
        wait_ms: int | None,
        run_ms: int | None,
        jobs: int = 1,
    ) -> None:
        """Count attempts that ended in the same way; an attempt that never began does not count."""
        key = (queue, task, attempt, transition.move, transition.error_code, transition.attempt_recorded)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._open(queue, task, attempt, transition)
            if tally is None:
                return
            self._tallies[key] = tally
        tally.jobs += jobs
        if wait_ms is not None:
            bucket = bucket_of(wait_ms)
            tally.waits[bucket] = tally.waits.get(bucket, 0) + jobs
        if run_ms is not None:
            bucket = bucket_of(run_ms)
            tally.runs[bucket] = tally.runs.get(bucket, 0) + jobs

    def rows(self) -> list[Tally]:
        return list(self._tallies.values())

    @staticmethod
    def _open(queue: str, task: str, attempt: int, transition: Transition) -> Tally | None:
        final = transition.status in FINISHED
        if not (final or transition.attempt_recorded):
            return None
        return Tally(
            queue=queue,
            type=task,
            outcome=OUTCOMES[transition.move],
            status=transition.status if final else None,
            error_code=transition.error_code or "",
            attempt=min(attempt, MOST_ATTEMPTS_COUNTED),
            waits={},
            runs={},
        )


def bucket_of(milliseconds: int) -> int:
    """
    >>> [bucket_of(ms) for ms in (0, 15, 16, 17, 18, 1000)]
    [0, 15, 16, 16, 17, 63]
    """
    if milliseconds < 16:
        return milliseconds if milliseconds > 0 else 0
    milliseconds = min(milliseconds, LONGEST_MS)
    octave = milliseconds.bit_length() - 4
    return 8 * octave + (milliseconds >> octave)


def bounds_of(bucket: int) -> tuple[int, int]:
    """Return the shortest duration of a bucket and of the next one, in milliseconds.

    >>> bounds_of(15), bounds_of(63)
    ((15, 16), (960, 1024))
    """
    if bucket < 16:
        return bucket, bucket + 1
    octave = bucket // 8 - 1
    first = (bucket - 8 * octave) << octave
    return first, first + (1 << octave)


def merge_histogram(into: MutableMapping[int, int], more: Mapping[int, int]) -> None:
    for bucket, count in more.items():
        into[bucket] = into.get(bucket, 0) + count


def percentile_ms(histogram: Mapping[int, int], share: float) -> float | None:
    """Return the duration that this share of all stays within, or None if nothing was counted.

    >>> percentile_ms({0: 98, 63: 2}, 0.5), percentile_ms({0: 98, 63: 2}, 0.99)
    (0.0, 991.5)
    """
    needed = share * sum(histogram.values())
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= needed and seen > 0:
            first, after = bounds_of(bucket)
            return (first + after - 1) / 2
    return None


def times_of(job: Job, at_ms: int) -> tuple[int | None, int | None]:
    """Return how long a claimed job waited and ran, in milliseconds, if its attempt ends now."""
    if job.claimed_at is None:
        return None, None
    claimed_at_ms = milliseconds_of(job.claimed_at)
    due_at_ms = milliseconds_of(max(job.run_at, job.created_at))
    return claimed_at_ms - due_at_ms, at_ms - milliseconds_of(job.started_at or job.claimed_at)


def cancelled_by_hand(job: Job, error_code: str) -> Tally:
    return _change(job, 1, status=target(job.status, Move.CANCEL), error_code=error_code, outcome="cancelled")


def completed_by_hand(job: Job) -> Tally:
    return _change(job, 1, status=target(job.status, Move.COMPLETE), error_code="", outcome=None)


def revived(job: Job) -> Tally:
    """Return the tallies of a finished job that runs again."""
    return _change(job, -1, status=job.status, error_code=job.error_code or "", outcome=None)


def expired(jobs: Sequence[Touched]) -> list[Tally]:
    status = target(Status.PENDING, Move.EXPIRE)
    return [
        Tally(queue=queue, type=task, outcome="expired", status=status, error_code=EXPIRED_CODE, jobs=count)
        for (queue, task), count in Counter((job.queue, job.type) for job in jobs).items()
    ]


def broken(jobs: Sequence[Touched], status: str, error_code: str) -> list[Tally]:
    """Return the tallies of jobs that ended because of another job, without an attempt."""
    counts = Counter((job.queue, job.type, min(job.attempt, MOST_ATTEMPTS_COUNTED)) for job in jobs)
    return [
        Tally(queue=queue, type=task, outcome=None, status=status, error_code=error_code, attempt=attempt, jobs=count)
        for (queue, task, attempt), count in counts.items()
    ]


def _change(job: Job, jobs: int, *, status: str, error_code: str, outcome: str | None) -> Tally:
    attempt = min(job.attempt, MOST_ATTEMPTS_COUNTED)
    return Tally(
        queue=job.queue,
        type=job.type,
        outcome=outcome,
        status=status,
        error_code=error_code,
        attempt=attempt,
        jobs=jobs,
    )


def fold(dialect: Dialect, *, everything: bool) -> Plan[int]:
    """Move tallies of past minutes (or all of them) into totals and history, and return how many."""
    (at_ms,) = yield from dialect.ask(queries.NOW)
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


def fold_history(dialect: Dialect) -> Plan[int]:
    """Merge some history of one span that is over, and return how many rows were merged."""
    (at_ms,) = yield from dialect.ask(queries.NOW)
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
    for row in past:
        group = (row.at_ms // unit_ms * unit_ms, row.queue, row.type)
        jobs[*group, row.outcome, row.error_code] += row.jobs
        waits, runs = histograms.setdefault(group, ({}, {}))
        merge_histogram(waits, row.waits)
        merge_histogram(runs, row.runs)
    return [
        Past(at, span_ms, queue, task, outcome, code, _bounded(count), *histograms.pop((at, queue, task), ({}, {})))
        for (at, queue, task, outcome, code), count in sorted(jobs.items())
    ]


def _bounded(jobs: int) -> int:
    """Return a number that fits the column: plain SQL may have counted more."""
    return max(-MOST_SUMMED, min(MOST_SUMMED, jobs))


def recount(dialect: Dialect) -> Plan[None]:
    """Count all finished jobs again, and set missing finish times."""
    q = queries
    for query in (q.LOCK_TALLIES, q.FINISH_FINISHED, q.DROP_TOTALS, q.COUNT_FINISHED):
        yield from dialect.ask(query)


def repair_ready(dialect: Dialect) -> Plan[None]:
    """Let exactly the jobs that may be claimed have a ready row.

    Not in the transaction of a recount: others lock ready rows before tallies, or after them.
    """
    for query in (LOCK_READY, DROP_ALL_STALE, ADD_MISSING):
        yield from dialect.ask(query)
