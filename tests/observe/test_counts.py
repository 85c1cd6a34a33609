"""The counts that a scrape shows."""

from __future__ import annotations

import threading

from rowcall import Stats, StoreUnavailable
from rowcall.base.clock import SystemClock
from rowcall.observe.counts import Counts
from tests.support import eventually

STATS = Stats(total=1, by_status={"pending": 1}, by_queue={"default": {"pending": 1}})


def test_they_are_asked_for_once_in_a_while() -> None:
    asked: list[int] = []

    def ask() -> Stats:
        asked.append(1)
        return STATS

    counts = Counts(ask, SystemClock())
    assert [counts.latest(), counts.latest()] == [STATS, STATS]
    assert len(asked) == 1


def test_a_database_that_fails_is_asked_again_at_once() -> None:
    answers: list[Stats | Exception] = [StoreUnavailable("gone"), STATS]

    def ask() -> Stats:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    counts = Counts(ask, SystemClock())
    assert [counts.latest(), counts.latest()] == [None, STATS]


def test_a_database_that_hangs_is_not_waited_for_and_asked_by_one_only() -> None:
    answer, asked = threading.Event(), []

    def ask() -> Stats:
        asked.append(1)
        answer.wait()
        return STATS

    counts = Counts(ask, SystemClock(), patience_seconds=0.01)
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
    patient, strict = Counts(ask, SystemClock(), **quick), Counts(ask, SystemClock(), **quick, stale_seconds=0.0)
    eventually(lambda: patient.latest() is STATS)
    answer.clear()
    assert patient.latest() is STATS
    assert strict.latest() is None
    answer.set()
