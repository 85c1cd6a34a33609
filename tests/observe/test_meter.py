"""Counting attempts that ended, and the counts that a scrape shows."""

from __future__ import annotations

import threading

import pytest

from rowcall import Stats, StoreUnavailable
from rowcall.base.clock import SystemClock
from rowcall.domain.outcome import SUCCESS, AttemptBudget, Lost, Reported, Transition, decide
from rowcall.observe.meter import BUCKETS_SECONDS, MOST_PAIRS, DurationHistogram, Latest, Meter
from rowcall.store.queries.jobs import Ready
from rowcall.store.queries.workers import Owned
from rowcall.store.recovery.recover import RecoveredAttempt
from tests.support import eventually

STATS = Stats(total=1, by_status={"pending": 1}, by_queue={"default": {"pending": 1}})
RETRY = decide(AttemptBudget(1, 5), Reported("A:B", ""))


class Past:
    """An attempt that ended."""

    def __init__(
        self, job_id: int, task: str, transition: Transition | None = SUCCESS, started_at: float = 1.0
    ) -> None:
        self.ready = Ready(job_id, task, "default", "{}", 5, 0, 0, 0, None, None, None)
        self.transition = transition
        self.started_at = started_at
        self.finished_at = started_at + 0.02
        self.waited_ms = 2000


def recovered(*, started: bool) -> RecoveredAttempt:
    return RecoveredAttempt(Owned(1, 1, 1, 5, started, "mail", "send"), decide(AttemptBudget(1, 5), Lost(started)))


def test_attempts_are_counted_by_outcome() -> None:
    meter = Meter()
    meter.add([Past(1, "a"), Past(2, "a", RETRY), Past(3, "a"), Past(4, "b")], {1, 2, 4})
    meter.add_completed([Past(5, "a", RETRY)])
    assert meter.attempts() == [
        (("default", "a", "dropped"), 1),
        (("default", "a", "retried"), 1),
        (("default", "a", "succeeded"), 2),
        (("default", "b", "succeeded"), 1),
    ]


def test_what_was_never_started_has_no_duration() -> None:
    meter = Meter()
    meter.add([Past(1, "a"), Past(2, "a", started_at=0.0)], {1, 2})
    [(pair, buckets, total)] = meter.ran()
    assert (pair, buckets[-1]) == (("default", "a"), ("+Inf", 1.0))
    assert total == pytest.approx(0.02)
    [(pair, buckets, total)] = meter.waited()
    assert (pair, buckets[-1], total) == (("default", "a"), ("+Inf", 1.0), 2.0)


def test_names_beyond_the_limit_are_one() -> None:
    meter = Meter()
    meter.add([Past(number, f"task{number}") for number in range(MOST_PAIRS + 7)], set(range(MOST_PAIRS + 7)))
    meter.add([Past(0, "task0"), Past(1, "another")], {0, 1})
    found = dict(meter.attempts())
    assert len(found) == MOST_PAIRS + 1 == len(meter.ran())
    assert found["other", "other", "succeeded"] == 8
    assert found["default", "task0", "succeeded"] == 2


def test_a_histogram_counts_up_to_and_with_each_limit() -> None:
    durations = DurationHistogram()
    for seconds in (0.0, BUCKETS_SECONDS[0], 0.3, 1e9):
        durations.add(seconds)
    found = dict(durations.cumulative())
    assert (found["0.005"], found["0.25"], found["0.5"], found["3600.0"], found["+Inf"]) == (2, 2, 3, 3, 4)


def test_they_are_asked_for_once_in_a_while() -> None:
    asked: list[int] = []

    def ask() -> Stats:
        asked.append(1)
        return STATS

    counts = Latest(ask, SystemClock())
    assert [counts.latest(), counts.latest()] == [STATS, STATS]
    assert len(asked) == 1


def test_a_database_that_fails_is_asked_again_at_once() -> None:
    answers: list[Stats | Exception] = [StoreUnavailable("gone"), STATS]

    def ask() -> Stats:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    counts = Latest(ask, SystemClock())
    assert [counts.latest(), counts.latest()] == [None, STATS]


def test_a_database_that_hangs_is_not_waited_for_and_asked_by_one_only() -> None:
    answer, asked = threading.Event(), []

    def ask() -> Stats:
        asked.append(1)
        answer.wait()
        return STATS

    counts = Latest(ask, SystemClock(), patience_seconds=0.01)
    assert [counts.latest(), counts.latest()] == [None, None]
    assert len(asked) == 1
    answer.set()
    eventually(lambda: counts.latest() is STATS)
    assert len(asked) == 1


def test_a_database_that_is_slow_is_shown_as_it_was_a_moment_ago() -> None:
    answer = threading.Event()
    answer.set()

    def ask() -> Stats:
        answer.wait()
        return STATS

    quick = {"fresh_seconds": 0.0, "patience_seconds": 0.01}
    patient, strict = Latest(ask, SystemClock(), **quick), Latest(ask, SystemClock(), **quick, stale_seconds=0.0)
    eventually(lambda: patient.latest() is STATS)
    answer.clear()
    assert patient.latest() is STATS
    assert strict.latest() is None
    answer.set()


def test_recovered_attempts_are_lost_if_their_handlers_had_started() -> None:
    meter = Meter()
    meter.add_recovered([recovered(started=True), recovered(started=False)])
    assert (meter.recovered(), meter.lost()) == ([(("mail", "send"), 2)], [(("mail", "send"), 1)])
