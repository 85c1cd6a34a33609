"""The five questions: how many, what is stuck, who retries, what fails, what is kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

import msgspec

from rowcall.base.times import time_of, time_or_none
from rowcall.domain.job import (
    Activity,
    ActivityMark,
    Counts,
    ErrorGroup,
    Failing,
    InProgress,
    Kept,
    Pace,
    Percentiles,
    Period,
    RetentionReport,
    Retries,
    Stats,
    Status,
)
from rowcall.domain.retention import Rules
from rowcall.store.counts.tallies import merge_histogram, percentile_ms
from rowcall.store.dialect import Dialect
from rowcall.store.queries import counts as queries
from rowcall.store.queries.control import PAUSED
from rowcall.store.queries.counts import (
    DEPLOYED,
    MOST_ATTEMPTS_COUNTED,
    PENDING_SAMPLE,
    SAMPLED,
    SPANS,
    UNSUCCESSFUL,
    Boundary,
    ErrorSpan,
    Histogram,
    Part,
    Total,
    Unfinished,
    WaitingPart,
)
from rowcall.store.statement import Plan

MOST_ARRIVALS_COUNTED = 30_000
MOST_WAITING_COUNTED, FEWEST_WAITING_COUNTED = 100_000, 100  # for a retry: of all groups together, of each
MOST_PRUNABLE_COUNTED, FEWEST_PRUNABLE_COUNTED = 200_000, 100  # likewise of what the next prune deletes
COUNTED_AT_ONCE = 100_000  # of unfinished jobs, in a part
NEARLY_NONE = 0.1  # plain SQL may write a few jobs of long ago among them


OUTAGE_MS = 5 * queries.MINUTE_MS  # workers take a sample each minute, or less often while they count millions


class EndedCounts(NamedTuple):
    """Attempts that ended, by period: failures, for good or not, and all others."""

    failed: list[int]
    others: list[int]


class Finished(NamedTuple):
    """Finished jobs at a time."""

    at_ms: int
    totals: list[Total]


def count_jobs(dialect: Dialect) -> Plan[Counts]:
    finished = yield from count_finished(dialect)
    return counts_of(finished, (yield from dialect.ask(queries.UNFINISHED)))


def count_finished(dialect: Dialect) -> Plan[Finished]:
    (at_ms,) = yield from dialect.ask(queries.NOW)
    return Finished(at_ms, (yield from dialect.ask(queries.TOTALS)))


def counts_of(finished: Finished, unfinished: Iterable[Unfinished]) -> Counts:
    at_ms = finished.at_ms
    counts = Counts(at_ms, Counter(), {})
    for total in finished.totals:
        counts.jobs[total.status, total.queue, total.type] += total.jobs
    for waiting in unfinished:
        counts.jobs[waiting.status, waiting.queue, waiting.type] += waiting.jobs
        if waiting.oldest_ms is None:
            continue
        # What is scheduled and overdue waits too: for a worker to notice. The clock may have been set back since then.
        if waiting.status == Status.PENDING or waiting.oldest_ms <= at_ms:
            known_ms = counts.oldest_ms.get(waiting.queue, waiting.oldest_ms)
            counts.oldest_ms[waiting.queue] = min(waiting.oldest_ms, known_ms)
    return counts


def count_part(
    dialect: Dialect, waiting: WaitingPart, group: tuple[str, str], after: tuple[int, ...]
) -> Plan[tuple[list[Part], tuple[int, ...] | None]]:
    """Count some jobs of a queue and type after a place, and return the last place, or None if there are no more."""
    parts = yield from dialect.ask(waiting.part, *group, *after, COUNTED_AT_ONCE)
    if sum(part.jobs for part in parts) < COUNTED_AT_ONCE:
        return parts, None
    (last,) = yield from dialect.ask(waiting.last_place, *group, *after, COUNTED_AT_ONCE - 1)
    return parts, last


def stats(dialect: Dialect, window_ms: int, counts: Counts | None = None) -> Plan[Stats]:
    """Return counts and rates. `counts` are from an earlier time, or None to count now."""
    (at_ms,) = yield from dialect.ask(queries.NOW)
    counts = counts or (yield from count_jobs(dialect.at(at_ms)))
    by_status = _counts()
    by_queue: dict[str, dict[str, int]] = defaultdict(_counts)
    by_type: dict[str, dict[str, int]] = defaultdict(_counts)
    for (status, queue, task), jobs in counts.jobs.items():
        by_status[status] += jobs
        by_queue[queue][status] += jobs
        by_type[task][status] += jobs
    since_ms = window_start(at_ms, window_ms)
    groups: dict[tuple[str, str], _Sums] = defaultdict(_sums)
    for ended in (yield from dialect.ask(queries.ENDED, since_ms, at_ms)):
        groups[ended.queue, ended.type].outcomes[ended.outcome] += ended.jobs
    for durations in (yield from dialect.ask(queries.DURATIONS, since_ms, at_ms)):
        sums = groups[durations.queue, durations.type]
        merge_histogram(sums.waits, durations.waits)
        merge_histogram(sums.runs, durations.runs)
    arrived_since_ms, arrived = yield from arrivals(dialect, since_ms, at_ms)
    for queue, task, jobs in arrived:
        groups[queue, task].outcomes["arrived"] += jobs
    pace = _paces(groups, lambda queue, task: "").get("", Pace())
    arrival_seconds = max((at_ms - arrived_since_ms) / 1000, 0.001)
    ages = {queue: max(0.0, (counts.at_ms - since) / 1000) for queue, since in sorted(counts.oldest_ms.items())}
    return Stats(
        total=sum(by_status.values()),
        by_status=by_status,
        by_queue=dict(sorted(by_queue.items())),
        by_type=dict(sorted(by_type.items())),
        oldest_waiting=max(ages.values(), default=None),
        oldest_waiting_by_queue=ages,
        window=(at_ms - since_ms) / 1000,
        arrival_window=arrival_seconds,
        arrivals_per_second=pace.arrived / arrival_seconds,
        completions_per_second=(pace.succeeded + pace.failed) / ((at_ms - since_ms) / 1000),
        pace=pace,
        pace_by_queue=_paces(groups, lambda queue, task: queue),
        pace_by_type=_paces(groups, lambda queue, task: task),
        paused=(yield from dialect.ask(PAUSED)),
        counted_at=time_of(counts.at_ms),
    )


def activity(dialect: Dialect, window_ms: int, queue: str = "", task: str = "") -> Plan[Activity]:
    """Return what happened, of one queue or task, or of all (an empty text)."""
    (at_ms,) = yield from dialect.ask(queries.NOW)
    numbers, span_ms = _periods(at_ms, window_ms)
    between = (numbers.start * span_ms, at_ms, span_ms, queue, task)
    outcomes: dict[int, Counter[str]] = defaultdict(Counter)
    errors: dict[str, Counter[int]] = defaultdict(Counter)
    for ended in (yield from dialect.ask(queries.ENDED_BY_PERIOD, *between)):
        outcomes[ended.period][ended.outcome] += ended.jobs
        if ended.outcome in UNSUCCESSFUL:
            errors[ended.error_code][ended.period] += ended.jobs
    times: dict[int, _Sums] = defaultdict(_sums)
    for durations in (yield from dialect.ask(queries.DURATIONS_BY_PERIOD, *between)):
        times[durations.period].add(_Sums(Counter(), durations.waits, durations.runs))
    samples: dict[int, Counter[str]] = defaultdict(Counter)
    deploys: list[tuple[int, str]] = []
    for sample in (yield from dialect.ask(queries.SAMPLES_BY_PERIOD, *between)):
        samples[sample.period][sample.outcome] += sample.jobs
        if sample.outcome == DEPLOYED:
            deploys.append((sample.period, sample.error_code))
    arrived = yield from _arrivals_by_period(dialect, numbers, span_ms, queue, task)
    return Activity(
        span=span_ms / 1000,
        periods=[
            Period(
                at=time_of(number * span_ms),
                arrived=arrived.jobs[number] if number >= arrived.known_from else None,
                succeeded=outcomes[number]["succeeded"],
                failed=outcomes[number]["failed"],
                retried=outcomes[number]["retried"],
                pending=_mean(samples[number][PENDING_SAMPLE], samples[number][SAMPLED]),
                wait=percentiles(times[number].waits),
                run=percentiles(times[number].runs),
            )
            for number in numbers
        ],
        errors={code: [counts[number] for number in numbers] for code, counts in sorted(errors.items())},
        arrivals_known_since=time_or_none(arrived.since_ms),
        arrivals_estimated=arrived.is_estimate,
        marks=[
            *_outages([number for number in numbers if samples[number][SAMPLED]], span_ms, at_ms),
            *(ActivityMark(at=time_of(number * span_ms), kind="deploy", detail=code) for number, code in deploys),
        ],
    )


def throughput(dialect: Dialect, window_ms: int) -> Plan[dict[tuple[str, str], EndedCounts]]:
    """Return how many attempts ended in each period of a window, by queue and task."""
    (at_ms,) = yield from dialect.ask(queries.NOW)
    numbers, span_ms = _periods(at_ms, window_ms)
    groups: dict[tuple[str, str], EndedCounts] = defaultdict(
        lambda: EndedCounts([0] * len(numbers), [0] * len(numbers))
    )
    for ended in (yield from dialect.ask(queries.ENDED_BY_GROUP, numbers.start * span_ms, at_ms, span_ms)):
        counts = groups[ended.queue, ended.type]
        (counts.failed if ended.outcome in UNSUCCESSFUL else counts.others)[ended.period - numbers.start] += ended.jobs
    return dict(groups)


def _periods(at_ms: int, window_ms: int) -> tuple[range, int]:
    """Return the numbers of the periods of a window, and how long each is."""
    span_ms = _span_of(window_ms)
    return range((at_ms - window_ms) // span_ms + 1, at_ms // span_ms + 1), span_ms


def _mean(total: int, times: int) -> float | None:
    return total / times if times else None


def _outages(sampled: Sequence[int], span_ms: int, at_ms: int) -> Iterator[ActivityMark]:
    """Yield the times without a sample after the first one, if no worker can have been alive then."""
    for last, following in zip_longest(sampled, sampled[1:]):
        begin_ms, end_ms = (last + 1) * span_ms, at_ms if following is None else following * span_ms
        if end_ms - begin_ms >= OUTAGE_MS:
            until = None if following is None else time_of(end_ms)
            yield ActivityMark(at=time_of(begin_ms), kind="no worker", until=until)


class _Arrivals(NamedTuple):
    """Arrivals by the number of a period. Earlier ones than `known_from`, before `since_ms`, are not known."""

    jobs: Counter[int]
    is_estimate: bool
    known_from: int
    since_ms: int | None


def _arrivals_by_period(dialect: Dialect, numbers: range, span_ms: int, queue: str, task: str) -> Plan[_Arrivals]:
    """Count jobs, or ids where there are too many jobs. Of one queue or task, only the latest jobs are counted."""
    oldest = next(iter((yield from dialect.ask(queries.FIRST_JOB))), None)
    if oldest is None:
        return _Arrivals(Counter(), False, numbers.stop, None)
    (newest,) = yield from dialect.ask(queries.NEWEST_ID)
    from_id = newest - MOST_ARRIVALS_COUNTED + 1
    ids: list[int] = []
    if oldest.id < from_id:
        times, longest_step = [number * span_ms for number in numbers], 1 << (newest - oldest.id).bit_length() - 1
        boundaries = yield from dialect.ask(queries.BOUNDARIES, times, oldest.id, newest, longest_step)
        ids = [*sorted(map(_id_at, boundaries)), newest + 1]  # of a later time, it is never lower
    is_estimate = bool(ids) and ids[0] < from_id and not (queue or task)
    if is_estimate:
        jobs = Counter({number: end - begin for number, (begin, end) in zip(numbers, pairwise(ids), strict=True)})
    else:
        begin_ms = numbers.start * span_ms
        jobs = Counter(
            dict((yield from dialect.ask(queries.ARRIVALS_BY_PERIOD, from_id, begin_ms, span_ms, queue, task)))
        )
        if ids and ids[0] < from_id:
            known_from = next(
                (number for number, first in zip(numbers, ids, strict=False) if first >= from_id), numbers.stop
            )
            return _Arrivals(jobs, False, known_from, None)
    if oldest.id == 1 or oldest.created_ms <= numbers.start * span_ms:
        return _Arrivals(jobs, is_estimate, numbers.start, None)
    known_from = min((number for number in numbers if jobs[number]), default=numbers.stop)
    return _Arrivals(jobs, is_estimate, known_from, oldest.created_ms)


def _id_at(boundary: Boundary) -> int:
    """Return the id of the next job at a time. Where jobs are gone, they had arrived evenly."""
    if boundary.created_ms >= boundary.at_ms:
        return boundary.id
    if boundary.next_id is None or boundary.next_ms is None:
        return boundary.id + 1
    gone = boundary.next_id - boundary.id - 1
    return boundary.id + 1 + gone * (boundary.at_ms - boundary.created_ms) // (boundary.next_ms - boundary.created_ms)


def window_start(at_ms: int, window_ms: int) -> int:
    """Return when a window begins: with a whole span of history."""
    span_ms = _span_of(window_ms)
    return (at_ms - window_ms) // span_ms * span_ms


def _span_of(window_ms: int) -> int:
    """Return the longest span that history may have within a window."""
    return max(span.ms for span in SPANS if window_ms > span.after_ms)


def _counts() -> dict[str, int]:
    return {status.value: 0 for status in Status}


def arrivals(dialect: Dialect, since_ms: int, at_ms: int) -> Plan[tuple[int, list[tuple[str, str, int]]]]:
    """Return the arrivals since a time, and since when they were counted: of very many, only the last are."""
    (newest,) = yield from dialect.ask(queries.NEWEST_ID)
    from_id = newest - MOST_ARRIVALS_COUNTED + 1
    groups = yield from dialect.ask(queries.ARRIVALS, from_id, since_ms, at_ms)
    counted_groups = [(group.queue, group.type, group.jobs) for group in groups if group.jobs]
    older = sum(group.others for group in groups)
    counted = sum(jobs for _, _, jobs in counted_groups)
    if from_id > 1 and counted > 0 and older < NEARLY_NONE * (counted + older):
        since_ms = min(group.first_ms for group in groups if group.first_ms is not None)
    return since_ms, counted_groups


class _Sums(NamedTuple):
    """What happened within a window, of some queues and types."""

    outcomes: Counter[str]
    waits: Histogram
    runs: Histogram

    def add(self, more: _Sums) -> None:
        self.outcomes.update(more.outcomes)
        merge_histogram(self.waits, more.waits)
        merge_histogram(self.runs, more.runs)


def _sums() -> _Sums:
    return _Sums(Counter(), {}, {})


def _paces(groups: Mapping[tuple[str, str], _Sums], name_of: Callable[[str, str], str]) -> dict[str, Pace]:
    by_name: dict[str, _Sums] = defaultdict(_sums)
    for (queue, task), sums in groups.items():
        by_name[name_of(queue, task)].add(sums)
    return {name: _pace(sums) for name, sums in sorted(by_name.items())}


def _pace(sums: _Sums) -> Pace:
    outcomes = sums.outcomes
    return Pace(
        arrived=outcomes["arrived"],
        succeeded=outcomes["succeeded"],
        failed=outcomes["failed"],
        retried=outcomes["retried"],
        wait=percentiles(sums.waits),
        run=percentiles(sums.runs),
    )


def percentiles(histogram: Histogram) -> Percentiles | None:
    found = [percentile_ms(histogram, share) for share in (0.5, 0.95, 0.99)]
    seconds = [ms / 1000 for ms in found if ms is not None]
    return Percentiles(*seconds) if seconds else None


def stuck(dialect: Dialect, limit: int) -> Plan[list[InProgress]]:
    (at_ms,) = yield from dialect.ask(queries.NOW)
    return [
        InProgress(
            **msgspec.structs.asdict(running.job),
            silent_for=_seconds_since(running.last_seen_ms, at_ms) or 0.0,
            host=running.host,
            worker_silent_for=_seconds_since(running.worker_heartbeat_ms, at_ms),
        )
        for running in (yield from dialect.ask(queries.RUNNING, limit))
    ]


def _seconds_since(then_ms: int | None, at_ms: int) -> float | None:
    return None if then_ms is None else max(0.0, (at_ms - then_ms) / 1000)


def retries(dialect: Dialect) -> Plan[Retries]:
    finished = yield from count_finished(dialect)
    return retries_of(finished, (yield from dialect.ask(queries.UNFINISHED_ATTEMPTS)))


def retries_of(finished: Finished, unfinished: Iterable[tuple[str, int, int]]) -> Retries:
    """Return how many jobs have used up how many attempts. `unfinished` has types, attempts and jobs."""
    by_type: dict[str, Counter[int]] = defaultdict(Counter)
    for total in finished.totals:
        by_type[total.type][total.attempt] += total.jobs
    for task, attempts, jobs in unfinished:
        by_type[task][min(attempts, MOST_ATTEMPTS_COUNTED)] += jobs
    together: Counter[int] = Counter()
    for counts in by_type.values():
        together.update(counts)
    return Retries(
        by_attempts=dict(sorted(together.items())),
        by_type={task: dict(sorted(counts.items())) for task, counts in sorted(by_type.items())},
        counted_at=time_of(finished.at_ms),
    )


def top_errors(dialect: Dialect, limit: int, fits: Callable[[str, str], bool]) -> Plan[list[ErrorGroup]]:
    """Return failed jobs by error code. `fits` takes a task and a code."""
    types: dict[str, Counter[str]] = defaultdict(Counter)
    for total in (yield from dialect.ask(queries.TOTALS)):
        if total.status == Status.FAILED and fits(total.type, total.error_code):
            types[total.error_code][total.type] += total.jobs
    codes = sorted(types, key=lambda code: (-types[code].total(), code))[:limit]
    ends = yield from _error_spans(dialect, codes)
    return [
        ErrorGroup(
            error_code=code,
            count=types[code].total(),
            types=dict(types[code].most_common()),
            first_at=time_or_none(ends[code].first_ms),
            last_at=time_or_none(ends[code].last_ms),
            sample=ends[code].sample,
            sample_type=ends[code].type,
        )
        for code in codes
    ]


def _error_spans(dialect: Dialect, codes: Sequence[str]) -> Plan[dict[str, ErrorSpan]]:
    found = yield from dialect.ask(queries.ERROR_SPANS, codes)
    return dict(zip(codes, found, strict=True))  # not by the codes found: SQLite cuts them at a NUL


def failing(dialect: Dialect, window_ms: int, limit: int, fits: Callable[[str, str], bool]) -> Plan[list[Failing]]:
    """Return what fails now, by error code. `fits` takes a task and a code."""
    (at_ms,) = yield from dialect.ask(queries.NOW)
    attempts: dict[str, Counter[str]] = defaultdict(Counter)
    failed: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    uncounted: set[str] = set()
    newest: dict[str, int] = {}
    for ended in (yield from dialect.ask(queries.ENDED_BY_ERROR, window_start(at_ms, window_ms), at_ms)):
        if fits(ended.type, ended.error_code):
            attempts[ended.error_code][ended.type] += ended.jobs
            failed[ended.error_code] += ended.jobs if ended.outcome == "failed" else 0
    groups = [group for group in (yield from dialect.ask(queries.WAITING_GROUPS)) if fits(group.type, group.error_code)]
    most = max(FEWEST_WAITING_COUNTED, MOST_WAITING_COUNTED // max(1, len(groups)))
    for group in groups:
        ((jobs, newest_id),) = yield from dialect.ask(queries.WAITING_ERRORS, *group, most)
        attempts[group.error_code][group.type] += 0
        waiting[group.error_code] += jobs
        newest[group.error_code] = max(newest_id, newest.get(group.error_code, 0))
        if jobs == most:
            uncounted.add(group.error_code)
    codes = sorted(attempts, key=lambda code: (-attempts[code].total(), -waiting[code], code))[:limit]
    details = dict((yield from dialect.ask(queries.DETAILS, [newest[code] for code in codes if code in newest])))
    ends = yield from _error_spans(dialect, codes)
    samples = {code: (ends[code].sample, ends[code].type) for code in codes}
    for code in codes:
        if (waiting_sample := details.get(newest.get(code, 0))) is not None and waiting_sample[0]:
            samples[code] = waiting_sample
    return [
        Failing(
            error_code=code,
            attempts=attempts[code].total(),
            failed=failed[code],
            waiting=waiting[code],
            more_waiting=code in uncounted,
            types=dict(attempts[code].most_common()),
            sample=samples[code][0],
            sample_type=samples[code][1],
        )
        for code in codes
    ]


def retention(dialect: Dialect, rules: Rules) -> Plan[RetentionReport]:
    (at_ms,) = yield from dialect.ask(queries.NOW)
    jobs: Counter[tuple[str, str, str]] = Counter()
    for total in (yield from dialect.ask(queries.TOTALS)):
        jobs[total.status, total.queue, total.type] += total.jobs
    kept: list[Kept] = []
    groups = yield from dialect.ask(queries.FINISHED_GROUPS)
    uncounted = MOST_PRUNABLE_COUNTED
    for group in groups:
        keep = rules.keep_seconds(*group)
        before_ms = None if keep is None else at_ms - round(keep * 1000)
        most = max(FEWEST_PRUNABLE_COUNTED, uncounted // (len(groups) - len(kept)))
        (prunable,) = yield from dialect.ask(queries.PRUNABLE, *group, before_ms, most)
        uncounted -= prunable.jobs
        kept.append(
            Kept(
                status=group.status,
                queue=group.queue,
                type=group.type,
                keep=keep,
                jobs=jobs[group],
                prunable=prunable.jobs,
                more_prunable=most == prunable.jobs < jobs[group],
                oldest_at=time_or_none(prunable.oldest_ms),
            )
        )
    (size_bytes,) = yield from dialect.ask(queries.SIZE_BYTES)
    return RetentionReport(
        kept=kept,
        jobs=sum(one.jobs for one in kept),
        prunable=sum(one.prunable for one in kept),
        more_prunable=any(one.more_prunable for one in kept),
        size_bytes=size_bytes,
    )
