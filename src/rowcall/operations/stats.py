"""Answer the questions of the person on call: how much, how fast, what is stuck, what fails, what is kept."""

from __future__ import annotations

from datetime import timedelta

from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.job import ErrorGroup, InProgress, RetentionReport, Retries, Stats
from rowcall.operations.arguments import checked_limit
from rowcall.operations.retention import rules_of
from rowcall.operations.steps import Read
from rowcall.queue import Operation, Queue
from rowcall.store.counts import questions
from rowcall.store.statement import Plan

DEFAULT_WINDOW_SECONDS = 300.0
LONGEST_WINDOW_SECONDS = 30 * 86_400.0
MOST_SHOWN = 1000


def stats(queue: Queue, window: float | timedelta) -> Operation[Stats]:
    seconds = seconds_of("window", window)
    if not 1 <= seconds <= LONGEST_WINDOW_SECONDS:
        raise InvalidOption("window", f"must be from 1 second to 30 days, for which history is kept, got {window!r}")
    return (yield from Read(questions.stats(queue.dialect, round(seconds * 1000), queue.now_ms()), snapshot=True))


def stuck(queue: Queue, limit: int) -> Operation[list[InProgress]]:
    plan = questions.stuck(queue.dialect, checked_limit(limit, MOST_SHOWN), queue.now_ms())
    return (yield from Read(plan, snapshot=True))


def retries(queue: Queue) -> Operation[Retries]:
    return (yield from Read(questions.retries(queue.dialect), snapshot=True))


def top_errors(queue: Queue, limit: int) -> Operation[list[ErrorGroup]]:
    return (yield from Read(questions.top_errors(queue.dialect, checked_limit(limit, MOST_SHOWN)), snapshot=True))


def retention(queue: Queue) -> Operation[RetentionReport]:
    return (yield from Read(_retention(queue), snapshot=True))


def _retention(queue: Queue) -> Plan[RetentionReport]:
    rules = yield from rules_of(queue)
    return (yield from questions.retention(queue.dialect, rules, queue.now_ms()))
