"""The same answers, found the slow way: by going through all rows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple
from unittest import mock

from rowcall import Job, Pace, Percentiles, Rowcall, Status
from rowcall.actions import JobFilter
from rowcall.app import queue_of
from rowcall.domain.retention import Rules
from rowcall.operations.stats import count_jobs, count_jobs_in_parts, retries_in_parts
from rowcall.overview.matching import Selection
from rowcall.store.counts import questions
from tests.observe.plain_sql import AttemptRow, JobRow

FINISHED = ("succeeded", "failed", "cancelled")
UNSUCCESSFUL = ("failed", "retried", "lost")
DAY = 86_400
# windows up to this many seconds begin with a whole minute, hour or six hours, longer ones with a whole day
WHOLE = ((3600, 60), (DAY, 3600), (7 * DAY, 6 * 3600), (30 * DAY, DAY))


class Ended(NamedTuple):
    """An attempt, or a job that never had one, as it ended."""

    at_ms: int
    queue: str
    type: str
    outcome: str
    wait_ms: int | None = None
    run_ms: int | None = None
    error_code: str = ""


class Wanted(NamedTuple):
    """What a page is narrowed to."""

    status: str | None
    queue: str | None
    type: str | None
    tag: str | None


def outcome_of(attempt: AttemptRow) -> str:
    return "retried" if attempt.status == "failed" and attempt.next_run_at is not None else attempt.status


def check_counts(jobs: Rowcall, rows: Sequence[JobRow], now_ms: int) -> None:
    stats = jobs.stats()
    assert stats.total == len(rows)
    assert stats.by_status == {status.value: sum(row.status == status for row in rows) for status in Status}
    for found, column in ((stats.by_queue, "queue"), (stats.by_type, "type")):
        counted = Counter((getattr(row, column), row.status) for row in rows)
        shown = {(name, status): count for name, counts in found.items() for status, count in counts.items() if count}
        assert shown == dict(counted)
    oldest: dict[str, int] = {}
    for row in rows:
        since = max(row.run_at, row.created_at)  # after the clock was set back, the latter may be in the future
        if row.status == "pending" or (row.status == "scheduled" and since <= now_ms):
            oldest[row.queue] = min(since, oldest.get(row.queue, since))
    ages = {queue: max(0.0, (now_ms - since) / 1000) for queue, since in oldest.items()}
    assert stats.oldest_waiting_by_queue == ages
    assert stats.oldest_waiting == max(ages.values(), default=None)


def check_parts(jobs: Rowcall) -> None:
    """Counted in parts, however small, the numbers are the same."""
    queue = queue_of(jobs)
    for at_once in (1, 3, 1000):
        with mock.patch.object(questions, "COUNTED_AT_ONCE", at_once):
            assert queue.run(count_jobs_in_parts(queue)) == queue.run(count_jobs(queue))
            assert queue.run(retries_in_parts(queue)) == jobs.retries()


def check_pace(jobs: Rowcall, rows: Sequence[JobRow], ended: Sequence[Ended], now_ms: int, window_seconds: int) -> None:
    stats = jobs.stats(window=window_seconds)
    since_ms = since_of(now_ms, window_seconds)
    seconds = (now_ms - since_ms) / 1000
    assert stats.window == stats.arrival_window == seconds
    arrived = [row for row in rows if since_ms <= row.created_at <= now_ms]
    recent = [one for one in ended if one.at_ms >= since_ms]
    assert stats.arrivals_per_second == len(arrived) / seconds
    done = sum(one.outcome in ("succeeded", "failed") for one in recent)
    assert stats.completions_per_second == done / seconds
    _check_pace(stats.pace, len(arrived), recent)
    for found, column in ((stats.pace_by_queue, "queue"), (stats.pace_by_type, "type")):
        names = {getattr(one, column) for one in (*arrived, *recent)}
        assert set(found) == names
        for name in names:
            of_name = [one for one in recent if getattr(one, column) == name]
            _check_pace(found[name], sum(getattr(row, column) == name for row in arrived), of_name)


def since_of(now_ms: int, window_seconds: int) -> int:
    whole_ms = next(whole for longest, whole in WHOLE if window_seconds <= longest) * 1000
    return (now_ms - window_seconds * 1000) // whole_ms * whole_ms


def check_activity(
    jobs: Rowcall, rows: Sequence[JobRow], ended: Sequence[Ended], now_ms: int, window_seconds: int
) -> None:
    """Whole periods that end with the present one."""
    found = jobs.activity(window=window_seconds)
    span_ms = round(found.span * 1000)
    begins = [round(period.at.timestamp() * 1000) for period in found.periods]
    first = (now_ms - window_seconds * 1000) // span_ms + 1
    assert begins == [number * span_ms for number in range(first, now_ms // span_ms + 1)]
    assert len(begins) <= 60
    errors: dict[str, Counter[int]] = defaultdict(Counter)
    for period, at_ms in zip(found.periods, begins, strict=True):
        within = [one for one in ended if at_ms <= one.at_ms < at_ms + span_ms]
        outcomes = Counter(one.outcome for one in within)
        came = sum(at_ms <= row.created_at < at_ms + span_ms for row in rows)
        is_known = bool(rows) and (rows[0].id == 1 or rows[0].created_at < at_ms + span_ms)
        assert period.arrived == (came if is_known else None)
        assert (period.succeeded, period.failed, period.retried) == (
            outcomes["succeeded"],
            outcomes["failed"],
            outcomes["retried"],
        )
        for one in within:
            if one.outcome in UNSUCCESSFUL:
                errors[one.error_code][at_ms] += 1
    assert found.errors == {code: [counts[at_ms] for at_ms in begins] for code, counts in sorted(errors.items())}


def _check_pace(pace: Pace, arrived: int, ended: Sequence[Ended]) -> None:
    outcomes = Counter(one.outcome for one in ended)
    assert (pace.arrived, pace.succeeded, pace.failed, pace.retried) == (
        arrived,
        outcomes["succeeded"],
        outcomes["failed"],
        outcomes["retried"],
    )
    _check_percentiles(pace.wait, [one.wait_ms for one in ended if one.wait_ms is not None])
    _check_percentiles(pace.run, [one.run_ms for one in ended if one.run_ms is not None])


def _check_percentiles(found: Percentiles | None, durations_ms: list[int]) -> None:
    """Within 7 % of those of the durations themselves."""
    if not durations_ms:
        assert found is None
        return
    assert found is not None
    ordered = sorted(max(0, duration) for duration in durations_ms)
    for share, seconds in ((0.50, found.p50), (0.95, found.p95), (0.99, found.p99)):
        exact = ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]
        assert abs(seconds * 1000 - exact) <= 0.07 * exact + 1e-6, (share, seconds, exact)


def check_stuck(jobs: Rowcall, rows: Sequence[JobRow], now_ms: int) -> None:
    running = []
    for row in rows:
        if row.status == "running":
            signs = (row.heartbeat_at, row.started_at, row.claimed_at, row.created_at)
            running.append((next(sign for sign in signs if sign is not None), row.id))
    expected = [(job_id, max(0.0, (now_ms - sign) / 1000)) for sign, job_id in sorted(running)]
    assert [(job.id, job.silent_for) for job in jobs.stuck(limit=1000)] == expected
    assert [job.id for job in jobs.stuck(limit=2)] == [job_id for job_id, _ in expected[:2]]


def check_retries(jobs: Rowcall, rows: Sequence[JobRow]) -> None:
    found = jobs.retries()
    assert found.by_attempts == dict(sorted(Counter(min(row.attempt, 100) for row in rows).items()))
    counted = Counter((row.type, min(row.attempt, 100)) for row in rows)
    assert {(kind, attempt): count for kind, counts in found.by_type.items() for attempt, count in counts.items()} == (
        dict(counted)
    )


def check_errors(jobs: Rowcall, rows: Sequence[JobRow]) -> None:
    groups: dict[str, list[JobRow]] = defaultdict(list)
    for row in rows:
        if row.status == "failed":
            groups[row.error_code or ""].append(row)
    codes = sorted(groups, key=lambda code: (-len(groups[code]), code))
    found = jobs.top_errors(limit=1000)
    assert [group.error_code for group in found] == codes
    for group in found:
        of_code = groups[group.error_code]
        ends = [(row.finished_at or 0, row.id) for row in of_code]
        last = max(of_code, key=lambda row: (row.finished_at or 0, row.id))
        assert (group.count, group.types) == (len(of_code), dict(Counter(row.type for row in of_code)))
        assert group.first_at is not None
        assert group.last_at is not None
        assert round(group.first_at.timestamp() * 1000) == min(ends)[0]
        assert round(group.last_at.timestamp() * 1000) == max(ends)[0]
        assert group.sample == last.error_detail
    assert [group.error_code for group in jobs.top_errors(limit=1)] == codes[:1]


def check_failing(
    jobs: Rowcall, rows: Sequence[JobRow], ended: Sequence[Ended], now_ms: int, window_seconds: int
) -> None:
    since_ms = since_of(now_ms, window_seconds)
    recent = [one for one in ended if one.at_ms >= since_ms and one.outcome in UNSUCCESSFUL]
    waiting = [row for row in rows if row.status in ("pending", "scheduled") and row.error_code is not None]
    for kind in (None, *sorted({row.type for row in rows})):
        failed = [one for one in recent if kind in (None, one.type)]
        found = {one.error_code: one for one in jobs.failing(window=window_seconds, type=kind, limit=1000)}
        assert {code: one.attempts for code, one in found.items() if one.attempts} == Counter(
            one.error_code for one in failed
        )
        assert {code: one.failed for code, one in found.items() if one.failed} == Counter(
            one.error_code for one in failed if one.outcome == "failed"
        )
        assert {code: one.waiting for code, one in found.items() if one.waiting} == Counter(
            row.error_code for row in waiting if kind in (None, row.type)
        )
        for code, group in found.items():
            tasks = Counter(one.type for one in failed if one.error_code == code)
            assert {task: count for task, count in group.types.items() if count} == tasks


def check_why(jobs: Rowcall, rows: Sequence[JobRow], now_ms: int, known: Sequence[str], asked: set[int]) -> None:
    """Ask about some of the rows. A worker that is alive serves all queues, and knows some tasks."""
    paused = {(one.kind, one.name) for one in jobs.paused()}

    def waits(row: JobRow) -> bool:
        return row.status == "pending" or (row.status == "scheduled" and row.run_at <= now_ms)

    def is_paused(row: JobRow) -> bool:
        return ("queue", row.queue) in paused or ("task", row.type) in paused

    def place(row: JobRow) -> tuple[int, int, int]:
        return (-row.priority, row.id if row.turn is None else row.turn, row.id)

    for row in (rows[index] for index in sorted(asked)):
        why = jobs.why(row.id)
        assert (why.status, why.job_id) == (row.status, row.id)
        if row.status in FINISHED:
            assert why.reason == "finished"
        elif row.status == "running":
            assert why.reason == ("buffered" if row.started_at is None else "running")
        elif row.status == "blocked":
            assert why.reason == "blocked"
        elif not waits(row):
            assert why.reason == ("scheduled" if row.error_code is None else "retry")
            assert why.until is not None
            assert round(why.until.timestamp() * 1000) == row.run_at
        elif is_paused(row):
            assert why.reason == "paused"
        elif row.held is not None:
            assert why.reason == "held"
        elif row.type not in known:
            assert why.reason == "no worker for the task"
        else:
            ahead = Counter(
                other.priority
                for other in rows
                if waits(other) and other.held is None and other.queue == row.queue
                if other.type in known and not is_paused(other) and place(other) < place(row)
            )
            assert why.ahead == dict(sorted(ahead.items(), reverse=True))
            assert why.reason == ("behind" if ahead else "next")


def doomed_of(rows: Sequence[JobRow], rules: Rules, now_ms: int) -> list[JobRow]:
    """What a prune has to delete, and nothing else."""
    doomed = []
    for row in rows:
        if row.status in FINISHED:
            assert row.finished_at is not None
            keep = rules.keep_seconds(Status(row.status), row.queue, row.type)
            if keep is not None and row.finished_at < now_ms - round(keep * 1000):
                doomed.append(row)
    return doomed


def check_retention(jobs: Rowcall, rows: Sequence[JobRow], rules: Rules, now_ms: int) -> None:
    doomed = doomed_of(rows, rules, now_ms)
    report = jobs.retention()
    finished: dict[tuple[str, str, str], list[JobRow]] = defaultdict(list)
    for row in rows:
        if row.status in FINISHED:
            finished[row.status, row.queue, row.type].append(row)
    assert (report.jobs, report.prunable) == (sum(map(len, finished.values())), len(doomed))
    assert not report.more_prunable
    assert {(kept.status, kept.queue, kept.type): kept.jobs for kept in report.kept} == {
        group: len(members) for group, members in finished.items()
    }
    for kept in report.kept:
        group = (kept.status.value, kept.queue, kept.type)
        assert kept.keep == rules.keep_seconds(kept.status, kept.queue, kept.type)
        assert kept.prunable == sum((row.status, row.queue, row.type) == group for row in doomed)
        assert kept.oldest_at is not None
        assert round(kept.oldest_at.timestamp() * 1000) == min(row.finished_at or 0 for row in finished[group])
    dry_run = jobs.prune(dry_run=True)
    assert dry_run.dry_run
    assert dry_run.by_status == {status: sum(row.status == status for row in doomed) for status in FINISHED}


def check_page(jobs: Rowcall, rows: Sequence[JobRow], tags: dict[int, set[str]], wanted: Wanted, limit: int) -> None:
    expected = [
        row.id
        for row in reversed(rows)
        if wanted.status in (None, row.status)
        and wanted.queue in (None, row.queue)
        and wanted.type in (None, row.type)
        and (wanted.tag is None or wanted.tag in tags.get(row.id, ()))
    ]
    found: list[int] = []
    cursor = None
    while True:
        page = jobs.list(**wanted._asdict(), limit=limit, cursor=cursor)
        found += [job.id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
        assert len(page.jobs) == limit
    assert found == expected, wanted


def check_filter(jobs: Rowcall, everything: Sequence[Job], chosen: JobFilter, limit: int) -> None:
    """Compare pages in both orders with the jobs that fit, out of all."""
    expected = [job for job in everything if all(_fits(job, name, value) for name, value in chosen.items())]
    if "finished_after" in chosen or "finished_before" in chosen:
        expected.sort(key=lambda job: (job.finished_at or job.created_at, job.id), reverse=True)
    for order, of_order in (("newest", expected), ("oldest", expected[::-1])):
        found: list[Job] = []
        page = jobs.list(order=order, limit=limit, **chosen)  # type: ignore[arg-type]
        found += page.jobs
        while page.next_cursor is not None:
            page = jobs.list(order=order, limit=limit, cursor=page.next_cursor, **chosen)  # type: ignore[arg-type]
            found += page.jobs
        assert [job.id for job in found] == [job.id for job in of_order], (chosen, order)


CHANGED_BY = {
    "set_priority": ("blocked", "scheduled", "pending", "running"),
    "reschedule": ("blocked", "scheduled", "pending"),
    "retry": ("failed",),
    "delete": tuple(status for status in Status if status != "running"),
}


def check_bulk(jobs: Rowcall, chosen: JobFilter, way: str, number: int) -> None:
    """Change all jobs that fit. Compare the count before it, its answer and the jobs that have changed.

    `number` is a new priority.
    """
    before = jobs.list(limit=1000).jobs
    fitting = [job for job in before if all(_fits(job, name, value) for name, value in chosen.items())]
    fitting = [job for job in fitting if job.status in CHANGED_BY[way]]
    queue = queue_of(jobs)
    assert queue.run(Selection(chosen, CHANGED_BY[way]).count(queue)) == (len(fitting), True), (way, chosen)
    match way:
        case "set_priority":
            fitting = [job for job in fitting if job.priority != number]
            count = jobs.set_priority(priority=number, **chosen)
        case "reschedule":
            count = jobs.reschedule(delay=7, **chosen)
        case "retry":
            count = jobs.retry(**{**chosen, "status": "failed"})  # type: ignore[call-overload]
        case _:
            count = jobs.delete(**chosen)
    after = {job.id: job for job in jobs.list(limit=1000).jobs}
    changed = {job.id for job in before if after.get(job.id) != job}
    assert (count, changed) == (len(fitting), {job.id for job in fitting}), (way, chosen)


def _fits(job: Job, name: str, value: Any) -> bool:
    match name:
        case "status":
            return job.status in value
        case "tag":
            return value in job.tags
        case "payload":
            return all(job.payload.get(argument) == one for argument, one in value.items())
        case "error_code":
            return job.error_code is not None and fnmatchcase(job.error_code, value)
        case "created_after" | "finished_after":
            at = getattr(job, name.replace("after", "at"))
            return bool(at is not None and at >= value)
        case "created_before" | "finished_before":
            at = getattr(job, name.replace("before", "at"))
            return bool(at is not None and at < value)
        case _:
            return bool(getattr(job, name) == value)
