"""Where a busy worker on PostgreSQL resumes its search for ready jobs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.queries.claims import NOTHING_KNOWN, Ready, Work
from rowcall.worker.pacing.postgres import LEAST_CLAIMED, LONGEST_SECONDS, SLOW_SECONDS, Resuming
from tests.worker.timers import StoppedClock

WORK = Work(0, None, None, registered=True, ready={("default", "send"): None})
READY = Ready(7, "send", "default", "{}", 5, 0, 0, 0, None, None, None)
STARTS = {("default", "send"): (-1, 7, 7)}
FULL = Demand(worker="w", slots=LEAST_CLAIMED)
RESUMED = Demand(worker="w", slots=LEAST_CLAIMED, resume=STARTS)


def claim(
    jobs: int = LEAST_CLAIMED, *, seconds: float = 0.02, left: bool = False, knows_all: bool = True
) -> RoundResult:
    return RoundResult(replace(WORK, seconds=seconds), started=[READY] * jobs, left=left, knows_all=knows_all)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def resuming(clock: StoppedClock) -> Resuming:
    return Resuming(clock)


@pytest.mark.parametrize(
    ("seconds", "resumes_for"), [(0.0, 0.0), (0.02, 0.4), (5.0, LONGEST_SECONDS)], ids=["quick", "slower", "slow"]
)
def test_after_a_round_that_filled_a_large_buffer_it_resumes_the_longer_the_slower_the_search_was(
    resuming: Resuming, clock: StoppedClock, seconds: float, resumes_for: float
) -> None:
    assert resuming.starts() == NOTHING_KNOWN
    resuming.note(FULL, claim(seconds=seconds))
    clock.at += max(0.0, resumes_for - 0.01)
    resuming.note(RESUMED, claim(seconds=5.0))  # not a search from the beginning
    assert resuming.starts() == (STARTS if resumes_for else NOTHING_KNOWN)
    clock.at += 0.02
    assert resuming.starts() == NOTHING_KNOWN


@pytest.mark.parametrize("found", [claim(LEAST_CLAIMED - 1), claim(left=True)], ids=["not full", "left some"])
def test_otherwise_it_looks_at_the_beginning(resuming: Resuming, found: RoundResult) -> None:
    resuming.note(FULL, claim())
    resuming.note(RESUMED, found)
    assert resuming.starts() == NOTHING_KNOWN


def test_after_a_slow_search_it_resumes_however_few_were_claimed(resuming: Resuming) -> None:
    """Otherwise slow rounds keep the buffer small, and a small buffer keeps the rounds slow."""
    few, resumed = Demand(worker="w", slots=3), Demand(worker="w", slots=3, resume=STARTS)
    resuming.note(few, claim(3, seconds=SLOW_SECONDS / 2))
    assert resuming.starts() == NOTHING_KNOWN
    resuming.note(few, claim(3, seconds=SLOW_SECONDS))
    assert resuming.starts() == STARTS
    resuming.note(resumed, claim(3))
    assert resuming.starts() == STARTS
    resuming.note(resumed, claim(2))
    assert resuming.starts() == NOTHING_KNOWN


def test_of_many_queues_it_resumes_only_after_a_slow_search(resuming: Resuming) -> None:
    resuming.note(FULL, claim(knows_all=False, seconds=SLOW_SECONDS / 2))
    assert resuming.starts() == NOTHING_KNOWN
    resuming.note(FULL, claim(knows_all=False, seconds=SLOW_SECONDS))
    assert resuming.starts() == STARTS


def test_a_round_that_only_settles_changes_nothing(resuming: Resuming) -> None:
    resuming.note(FULL, claim())
    resuming.note(Demand(worker="w", slots=0), RoundResult(WORK))
    assert resuming.starts() == STARTS
