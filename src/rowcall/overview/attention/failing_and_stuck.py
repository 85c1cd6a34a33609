"""Attempts and finished jobs: what fails, what hangs, what should have been deleted."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from rowcall.base.text import duration
from rowcall.domain.attention import Finding
from rowcall.domain.job import Status
from rowcall.domain.payload import UNFIT_CODES
from rowcall.operations.retention import rules_of
from rowcall.overview.attention import thresholds
from rowcall.overview.attention.situation import APP, MOST_SAMPLES, Situation, finding, first_of
from rowcall.overview.formats import at_least, counted, share
from rowcall.store.counts.questions import window_start
from rowcall.store.counts.tallies import merge_histogram, percentile_ms
from rowcall.store.queries.attention import (
    ENDS_OF_TASK,
    FAILED_SINCE,
    LONG_ATTEMPTS,
    NEWEST_WITH_ERROR,
    RUNS,
    EndedJob,
    LongAttempt,
)
from rowcall.store.queries.counts import (
    ENDED,
    ENDED_BY_ERROR,
    OLDEST_FINISHED,
    PRUNABLE,
    UNSUCCESSFUL,
    Histogram,
)
from rowcall.store.statement import Plan

MOST_LONG, MOST_FAILED = 200, 1_000


class FailureShare(NamedTuple):
    """Attempts of a task that ended within a window."""

    seconds: float
    attempts: int
    failed: int


def task_failing(situation: Situation) -> Plan[list[Finding]]:
    recent = yield from _ended_since(situation, thresholds.FAILING_SECONDS)
    longer = yield from _ended_since(situation, thresholds.ALWAYS_FAILING_SECONDS)
    failing = {task: ended for task, ended in longer.items() if _always_fails(ended)}
    failing |= {task: ended for task, ended in recent.items() if _mostly_fails(ended)}
    if not failing:
        return []
    errors: dict[str, Counter[str]] = defaultdict(Counter)
    window_ms = round(thresholds.ALWAYS_FAILING_SECONDS * 1000)
    since_ms = window_start(situation.at_ms, window_ms)
    for one in (yield from situation.dialect.ask(ENDED_BY_ERROR, since_ms, situation.at_ms)):
        errors[one.type][one.error_code] += one.jobs
    findings = []
    for task, ended in sorted(failing.items(), key=lambda item: -item[1].failed):
        findings.append((yield from _failing(situation, task, ended, errors[task].most_common(1)[0][0])))
    return first_of(findings)


def _always_fails(ended: FailureShare) -> bool:
    return ended.failed == ended.attempts >= thresholds.ALWAYS_FAILING_ATTEMPTS


def _mostly_fails(ended: FailureShare) -> bool:
    return ended.attempts >= thresholds.FAILING_ATTEMPTS and ended.failed >= ended.attempts * thresholds.FAILING_SHARE


def _failing(situation: Situation, task: str, ended: FailureShare, code: str) -> Plan[Finding]:
    ids: list[int] = []
    for status in (Status.FAILED, Status.SCHEDULED, Status.PENDING):
        if len(ids) < MOST_SAMPLES:
            more = MOST_SAMPLES - len(ids)
            ids += yield from situation.dialect.ask(NEWEST_WITH_ERROR, status.value, code, task, more)
    which = "all" if ended.failed == ended.attempts else share(ended.failed, ended.attempts)
    return finding(
        "task_failing",
        f"task {task} fails: {which} of {counted(ended.attempts, 'attempt')} in the last {duration(ended.seconds)},"
        f" mostly with {code or 'no error code'}",
        f"See the error: {_command('errors', '--type', task)}; when its cause is gone, run the failed jobs again:"
        f" {_command('retry', '--type', task)}; until then you may pause it: {_command('pause', '--task', task)}",
        link=f"/jobs?error_code={quote(code, safe='')}&type={quote(task, safe='')}",
        since_ms=(yield from _failing_since_ms(situation, task)) if which == "all" else None,
        task=task,
        attempts=ended.attempts,
        failed=ended.failed,
        error_code=code,
        sample=(yield from situation.sample_error(ids)),
        jobs=ids,
    )


def _failing_since_ms(situation: Situation, task: str) -> Plan[int]:
    """Return when attempts of a task began to fail: after the last success of the longer window, to the minute."""
    window_ms = round(thresholds.ALWAYS_FAILING_SECONDS * 1000)
    since_ms = window_start(situation.at_ms, window_ms)
    ends = yield from situation.dialect.ask(ENDS_OF_TASK, since_ms, situation.at_ms, task)
    succeeded_ms = max((one.last_ms for one in ends if one.outcome == "succeeded"), default=0)
    failed_ms = min((one.first_ms for one in ends if one.outcome in UNSUCCESSFUL), default=situation.at_ms)
    return max(succeeded_ms, failed_ms)


def _ended_since(situation: Situation, seconds: float) -> Plan[dict[str, FailureShare]]:
    """Return how many attempts of each task ended, and how many of them failed."""
    since_ms = window_start(situation.at_ms, round(seconds * 1000))
    attempts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for past in (yield from situation.dialect.ask(ENDED, since_ms, situation.at_ms)):
        if past.outcome in UNSUCCESSFUL:
            failed[past.type] += past.jobs
        if past.outcome in (*UNSUCCESSFUL, "succeeded"):
            attempts[past.type] += past.jobs
    return {task: FailureShare(seconds, count, failed[task]) for task, count in attempts.items()}


def job_stuck(situation: Situation) -> Plan[list[Finding]]:
    """Find handlers that run much longer than those of their task usually do, and report no progress."""
    before_ms = situation.before_ms(thresholds.STUCK_SECONDS)
    running = yield from situation.dialect.ask(LONG_ATTEMPTS, before_ms, MOST_LONG)
    silent_ms = situation.before_ms(thresholds.PROGRESS_SECONDS)
    running = [one for one in running if one.type is not None and (one.progress_ms or 0) <= silent_ms]
    if not running:
        return []
    usual = yield from _usual_seconds(situation, sorted({one.type for one in running if one.type is not None}))
    stuck: dict[str, list[LongAttempt]] = defaultdict(list)
    for attempt in running:
        task = attempt.type or ""
        if attempt.started_ms <= situation.before_ms(_allowed_seconds(situation, attempt, usual.get(task))):
            stuck[task].append(attempt)
    findings = [
        _stuck(situation, task, jobs, usual.get(task))
        for task, jobs in sorted(stuck.items(), key=lambda item: item[1][0].started_ms)
    ]
    return first_of(findings)


def _usual_seconds(situation: Situation, tasks: list[str]) -> Plan[Mapping[str, float]]:
    """Return within how many seconds 99 of 100 handlers of each task ended, where enough are known."""
    runs: dict[str, Histogram] = defaultdict(dict)
    since_ms = window_start(situation.at_ms, round(thresholds.USUAL_SECONDS * 1000))
    for task, histogram in (yield from situation.dialect.ask(RUNS, since_ms, situation.at_ms, tasks)):
        merge_histogram(runs[task], histogram)
    return {
        task: (percentile_ms(histogram, 0.99) or 0) / 1000
        for task, histogram in runs.items()
        if sum(histogram.values()) >= thresholds.USUAL_RUNS
    }


def _allowed_seconds(situation: Situation, attempt: LongAttempt, usual_seconds: float | None) -> float:
    if usual_seconds is not None:
        return max(thresholds.STUCK_SECONDS, thresholds.STUCK_FACTOR * usual_seconds)
    declared = situation.queue.declared.tasks.get(attempt.type or "")
    timeout = None if declared is None else declared.options.timeout_seconds
    return thresholds.UNUSUAL_SECONDS if timeout is None else timeout + thresholds.STUCK_SECONDS


def _stuck(situation: Situation, task: str, jobs: list[LongAttempt], usual_seconds: float | None) -> Finding:
    first = jobs[0]
    runs = duration((situation.at_ms - first.started_ms) / 1000)
    usually = "" if usual_seconds is None else f"; 99 % end within {duration(usual_seconds)}"
    verb = "runs" if len(jobs) == 1 else "run"
    return finding(
        "job_stuck",
        f"{at_least(len(jobs), len(jobs) == MOST_LONG)} {'job' if len(jobs) == 1 else 'jobs'} of task {task} {verb}"
        f" unusually long, job {first.id} for {runs} on {first.worker}{usually}",
        f"See where it is: {_command('stack', str(first.id))}; end it: {_command('cancel', str(first.id))};"
        " a timeout ends such handlers automatically",
        link=f"/jobs/{first.id}",
        since_ms=first.started_ms,
        task=task,
        running=len(jobs),
        usual_seconds=usual_seconds,
        workers=sorted({one.worker for one in jobs})[:MOST_SAMPLES],
        jobs=[one.id for one in jobs[:MOST_SAMPLES]],
    )


def unknown_failures(situation: Situation) -> Plan[list[Finding]]:
    """Find jobs that failed because no worker took them in time. Retried ones do not count any more."""
    failed: dict[tuple[str, str], list[EndedJob]] = defaultdict(list)
    since_ms = situation.before_ms(thresholds.UNKNOWN_SECONDS)
    for code in UNFIT_CODES:
        for job in (yield from situation.dialect.ask(FAILED_SINCE, code, since_ms, MOST_FAILED)):
            failed[code, job.type].append(job)
    findings = []
    for (code, task), jobs in sorted(failed.items(), key=lambda item: -len(item[1])):
        number = at_least(len(jobs), len(jobs) == MOST_FAILED)
        findings.append(
            finding(
                "unknown_failures",
                f"{number} {'job' if len(jobs) == 1 else 'jobs'} of task {task} failed within a day with {code}:"
                " no worker took them in time",
                f"Start workers with the code of the task, then: {_command('retry', '--type', task)};"
                f" or delete them: {_command('delete', '--type', task, '--status', 'failed')}",
                link=f"/jobs?error_code={quote(code, safe='')}&type={quote(task, safe='')}",
                since_ms=jobs[-1].at_ms,
                task=task,
                error_code=code,
                failed=len(jobs),
                jobs=[job.id for job in jobs[:MOST_SAMPLES]],
            )
        )
    return first_of(findings)


def retention_behind(situation: Situation) -> Plan[list[Finding]]:
    """Find that finished jobs pile up: by their number, as some are kept for jobs that may still read them."""
    rules = yield from rules_of(situation.queue)
    overdue, oldest = 0, situation.at_ms
    for group, oldest_ms in (yield from situation.dialect.ask(OLDEST_FINISHED)):
        keep = rules.keep_seconds(*group)
        before_ms = None if keep is None else situation.before_ms(keep + thresholds.UNPRUNED_SECONDS)
        if before_ms is None or oldest_ms is None or oldest_ms >= before_ms or overdue >= thresholds.UNPRUNED_JOBS:
            continue
        most = thresholds.UNPRUNED_JOBS - overdue
        ((jobs, _),) = yield from situation.dialect.ask(PRUNABLE, *group, before_ms, most)
        overdue += jobs
        oldest = min(oldest, oldest_ms)
    if overdue < thresholds.UNPRUNED_JOBS:
        return []
    return [
        finding(
            "retention_behind",
            f"{overdue:,}+ finished jobs should have been deleted more than"
            f" {duration(thresholds.UNPRUNED_SECONDS)} ago;"
            f" the oldest ended {duration((situation.at_ms - oldest) / 1000)} ago",
            f"Workers delete them; do it now: {_command('prune')}; if they cannot keep up, keep fewer or shorter",
            link="/storage",
            jobs_overdue=overdue,
        )
    ]


def _command(name: str, *words: str) -> str:
    return shlex.join(["rowcall", name, APP, *words])
