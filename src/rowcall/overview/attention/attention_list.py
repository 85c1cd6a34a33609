"""`jobs.attention()`: one list of what needs attention, most urgent first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowcall.domain.attention import Finding
from rowcall.drivers.patience import OVERVIEW, with_patience
from rowcall.observe.meter import QueueFacts
from rowcall.operations.effects import Blocking, Read
from rowcall.operations.stats import stats
from rowcall.overview.attention import failing_and_stuck, machine, not_running
from rowcall.overview.attention.machine import FileFacts, about_files, file_facts
from rowcall.overview.attention.situation import Check, read_situation
from rowcall.overview.attention.thresholds import THRESHOLDS
from rowcall.queue import Operation, Queue
from rowcall.store.queries.counts import NOW
from rowcall.store.statement import Plan

CHECKS: Sequence[Check] = (
    not_running.no_worker,
    not_running.queue_unserved,
    not_running.task_unknown,
    not_running.schedule_late,
    not_running.limit_full,
    not_running.paused,
    not_running.falling_behind,
    failing_and_stuck.task_failing,
    failing_and_stuck.job_stuck,
    failing_and_stuck.unknown_failures,
    failing_and_stuck.retention_behind,
    machine.clock,
    machine.server,
)
METRICS_WINDOW_SECONDS = 60.0
_ORDER = {code: place for place, code in enumerate(THRESHOLDS)}


@with_patience(OVERVIEW)
def attention(queue: Queue) -> Operation[list[Finding]]:
    """Return what needs attention, most urgent first; an empty list if all is well.

    It reads groups of jobs and counts, not all jobs, so it takes some milliseconds however many there are.

    >>> for one in jobs.attention():  # doctest: +SKIP
    ...     print(one.severity, one.message, one.advice)
    """
    ahead = yield from _clock(queue)
    found = yield from Read(find_all(queue), snapshot=True)
    facts = yield from Blocking(file_facts, queue)
    return most_urgent_first([*found, *about_files(facts), *about_files(ahead)])


def find_all(queue: Queue) -> Plan[list[Finding]]:
    """Return the findings that the database knows about."""
    situation = yield from read_situation(queue)
    findings: list[Finding] = []
    for check in CHECKS:
        findings += yield from check(situation)
    return findings


def counts_by_code(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many findings there are of every code."""
    counts = dict.fromkeys(THRESHOLDS, 0)
    for one in findings:
        counts[one.code] += 1
    return counts


def queue_facts(queue: Queue) -> Operation[QueueFacts]:
    """Return what the metrics say about the queues."""
    counts = yield from stats(queue, window=METRICS_WINDOW_SECONDS)
    return QueueFacts(counts, counts_by_code((yield from attention(queue))))


def most_urgent_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda one: _ORDER[one.code])


def _clock(queue: Queue) -> Operation[FileFacts]:
    """Compare the server's clock with this machine's, unless a test has its own."""
    if queue.config.server is None or queue.now_ms() is not None:
        return FileFacts()
    asked_at = queue.clock.wall()
    (at_ms,) = yield from Read(queue.dialect.ask(NOW))
    answered_at = queue.clock.wall()
    ahead = at_ms / 1000 - (asked_at + answered_at) / 2
    return FileFacts(clock_ahead_seconds=ahead, unsure_seconds=(answered_at - asked_at) / 2)
