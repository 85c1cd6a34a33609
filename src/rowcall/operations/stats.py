"""Answer the questions of the person on call: how much, how fast, what is stuck, what fails, what is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from datetime import timedelta

from rowcall.domain import checks
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.job import (
    Activity,
    Counts,
    ErrorGroup,
    Failing,
    InProgress,
    RetentionReport,
    Retries,
    Stats,
    Status,
)
from rowcall.drivers.patience import OVERVIEW, with_patience
from rowcall.operations.arguments import checked_error_code, checked_limit
from rowcall.operations.effects import Read
from rowcall.operations.retention import rules_of
from rowcall.queue import Operation, Queue
from rowcall.store.counts import questions
from rowcall.store.jobs.pages import is_like
from rowcall.store.queries.claims import task_of
from rowcall.store.queries.counts import RUNNING_PART, TAGS, TOTALS, WAITING_PARTS, Unfinished
from rowcall.store.statement import Plan

DEFAULT_WINDOW_SECONDS = 300.0
DEFAULT_ACTIVITY_SECONDS = 3600.0
LONGEST_WINDOW_SECONDS = 30 * 86_400.0
MOST_SHOWN = 1000


def stats(queue: Queue, *, window: float | timedelta = DEFAULT_WINDOW_SECONDS) -> Operation[Stats]:
    """Return how many jobs are in each state, how long the oldest waits, and how fast jobs come and go.

    Rates and percentiles are about the last `window` seconds, up to 30 days. The period is extended to begin with a
    whole minute; with a whole hour if it is longer than an hour, with a quarter of a day if it is longer than a
    day, and with a whole day (UTC) if it is longer than 7 days.
    """
    return stats_of(queue, window, None)


@with_patience(OVERVIEW)
def stats_of(queue: Queue, window: float | timedelta, counts: Counts | None) -> Operation[Stats]:
    """Return counts and rates. `counts` are from an earlier time, or None to count now."""
    plan = questions.stats(queue.dialect, _checked_window(window), counts)
    return (yield from Read(plan, snapshot=True))


@with_patience(OVERVIEW)
def count_jobs(queue: Queue) -> Operation[Counts]:
    return (yield from Read(questions.count_jobs(queue.dialect), snapshot=True))


def count_jobs_in_parts(queue: Queue) -> Operation[Counts]:
    """Count in short reads, whatever their number. Jobs that change may be counted twice, or not at all."""
    finished, unfinished = yield from _in_parts(queue)
    return questions.counts_of(finished, [one for one, _ in unfinished])


def retries_in_parts(queue: Queue) -> Operation[Retries]:
    finished, unfinished = yield from _in_parts(queue)
    return questions.retries_of(finished, [(one.type, attempt, one.jobs) for one, attempt in unfinished])


@with_patience(OVERVIEW)
def _in_parts(queue: Queue) -> Operation[tuple[questions.Finished, list[tuple[Unfinished, int]]]]:
    """Return finished jobs, and the numbers of unfinished ones with the attempts that they have used up."""
    finished = yield from Read(questions.count_finished(queue.dialect), snapshot=True)
    unfinished = [
        (Unfinished(Status.RUNNING, named, task, jobs, None), attempt)
        for named, task, attempt, jobs in (yield from Read(queue.dialect.ask(RUNNING_PART)))
    ]
    for waiting in WAITING_PARTS:
        group = ("", "")
        while found := (yield from Read(queue.dialect.ask(waiting.next_group, *group))):
            group = found[0]
            place: tuple[int, ...] | None = waiting.first
            while place is not None:
                plan = questions.count_part(queue.dialect, waiting, group, place)
                parts, place = yield from Read(plan, snapshot=True)
                named, task = group[0], task_of(group[1])
                unfinished += [
                    (Unfinished(waiting.status, named, task, part.jobs, part.oldest_ms), part.attempt) for part in parts
                ]
    return finished, unfinished


def finished_jobs(
    queue: Queue,
    statuses: Collection[str],
    named: str | None = None,
    kind: str | None = None,
    error_code: str | None = None,
) -> Operation[int]:
    """Count finished jobs of some states, of a queue, a task or an error. It does not depend on how many jobs wait."""
    fits = _fitting(kind, error_code)
    return sum(
        total.jobs
        for total in (yield from Read(queue.dialect.ask(TOTALS)))
        if total.status in statuses and named in (None, total.queue) and fits(total.type, total.error_code)
    )


def known_tags(queue: Queue, limit: int) -> Operation[list[str]]:
    """Return the first tags of jobs, in order."""
    return [tag or "" for tag in (yield from Read(queue.dialect.ask(TAGS, limit)))]


def known_errors(queue: Queue, limit: int) -> Operation[list[str]]:
    """Return the error codes of most finished jobs."""
    jobs: Counter[str] = Counter()
    for total in (yield from Read(queue.dialect.ask(TOTALS))):
        jobs[total.error_code] += total.jobs if total.error_code else 0
    return [code for code, count in jobs.most_common(limit) if count > 0]


def failed_jobs(queue: Queue) -> Operation[int]:
    return (yield from finished_jobs(queue, (Status.FAILED,)))


@with_patience(OVERVIEW)
def activity(
    this: Queue,
    /,
    *,
    window: float | timedelta = DEFAULT_ACTIVITY_SECONDS,
    queue: str | None = None,
    type: str | None = None,
) -> Operation[Activity]:
    """Return what happened over the last `window` seconds, in at most 60 periods: arrivals, ends, times and errors.

    A period is a minute; an hour, a quarter of a day or a day if the window is longer than an hour, a day, 7 days.
    `queue` and `type` narrow it to one queue and one task; then arrivals are known of the latest 30,000 jobs.

    >>> [period.failed for period in jobs.activity(window=3600).periods]  # doctest: +SKIP
    """
    for name, value in (("queue", queue), ("type", type)):
        if value is not None:
            checks.name(name, value)
    plan = questions.activity(this.dialect, _checked_window(window), queue or "", type or "")
    return (yield from Read(plan, snapshot=True))


@with_patience(OVERVIEW)
def throughput(queue: Queue, *, window: float) -> Operation[dict[tuple[str, str], questions.EndedCounts]]:
    """Return how many attempts ended in each period of a window, by queue and task."""
    return (yield from Read(questions.throughput(queue.dialect, _checked_window(window)), snapshot=True))


def _checked_window(window: float | timedelta) -> int:
    seconds = seconds_of("window", window)
    if not 1 <= seconds <= LONGEST_WINDOW_SECONDS:
        raise InvalidOption("window", f"must be from 1 second to 30 days, for which history is kept, got {window!r}")
    return round(seconds * 1000)


@with_patience(OVERVIEW)
def stuck(queue: Queue, *, limit: int = 20) -> Operation[list[InProgress]]:
    """Return running jobs, longest without a heartbeat first."""
    plan = questions.stuck(queue.dialect, checked_limit(limit, MOST_SHOWN))
    return (yield from Read(plan, snapshot=True))


@with_patience(OVERVIEW)
def retries(queue: Queue) -> Operation[Retries]:
    """Return the number of jobs by attempts used, for all tasks and for each task."""
    return (yield from Read(questions.retries(queue.dialect), snapshot=True))


@with_patience(OVERVIEW)
def top_errors(
    queue: Queue, *, limit: int = 20, type: str | None = None, error_code: str | None = None
) -> Operation[list[ErrorGroup]]:
    """Return failed jobs grouped by error code, most frequent first; of one task, or with codes like `TIMEOUT:*`.

    `failing` is about attempts that are retried, too.
    """
    fits = _fitting(type, error_code)
    return (yield from Read(questions.top_errors(queue.dialect, checked_limit(limit, MOST_SHOWN), fits), snapshot=True))


@with_patience(OVERVIEW)
def failing(
    queue: Queue,
    *,
    window: float | timedelta = DEFAULT_WINDOW_SECONDS,
    type: str | None = None,
    error_code: str | None = None,
    limit: int = 20,
) -> Operation[list[Failing]]:
    """Return what fails now, by error code: attempts of the last `window` seconds, and jobs that wait for a retry.

    An `error_code` that ends with `*` matches all codes that begin so. The window is rounded up to full minutes.

    >>> jobs.failing(window=3600, type="send_email", error_code="TIMEOUT:*")  # doctest: +SKIP
    """
    window_ms, most, fits = _checked_window(window), checked_limit(limit, MOST_SHOWN), _fitting(type, error_code)
    plan = questions.failing(queue.dialect, window_ms, most, fits)
    return (yield from Read(plan, snapshot=True))


def _fitting(task: str | None, error_code: str | None) -> Callable[[str, str], bool]:
    """Return whether a task and an error code are the ones that are asked for."""
    if task is not None:
        checks.name("type", task)
    pattern = checked_error_code(error_code)
    return lambda found, code: task in (None, found) and (pattern is None or is_like(code, pattern))


@with_patience(OVERVIEW)
def retention(queue: Queue) -> Operation[RetentionReport]:
    """Return which jobs are kept, for how long, and what the next prune deletes."""
    return (yield from Read(_retention(queue), snapshot=True))


def _retention(queue: Queue) -> Plan[RetentionReport]:
    rules = yield from rules_of(queue)
    return (yield from questions.retention(queue.dialect, rules))
