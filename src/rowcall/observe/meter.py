"""Counts and times the attempts that ended, by queue and task, in plain numbers."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Protocol

from rowcall.domain.outcome import OUTCOMES, SUCCESS, Transition
from rowcall.store.jobs.queries import Ready

MOST_PAIRS = 200
OTHER = "other"
BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
SUCCEEDED, DROPPED = "succeeded", "dropped"

Pair = tuple[str, str]


class Ended(Protocol):
    """An attempt of this process that has ended."""

    ready: Ready
    transition: Transition | None
    started_at: float
    finished_at: float

    @property
    def waited_ms(self) -> int: ...


class Bounded:
    """Limits the number of label values: later ones share `other`."""

    def __init__(self, most: int = MOST_PAIRS) -> None:
        self._most = most
        self._known: set[Pair] = set()

    def label(self, pair: Pair) -> Pair:
        if pair in self._known:
            return pair
        if len(self._known) >= self._most:
            return OTHER, OTHER
        self._known.add(pair)
        return pair


class Durations:
    """A histogram: how many lasted up to each limit, and their total time."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        if seconds < 0:  # a clock was set back
            seconds = 0.0
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Return each limit with the number of durations up to it."""
        total, buckets = 0, []
        for limit, count in zip((*map(str, BUCKETS_SECONDS), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((limit, float(total)))
        return buckets


class Numbers:
    """The figures of one queue and task."""

    __slots__ = ("outcomes", "ran", "waited")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.ran = Durations()
        self.waited = Durations()

    def add(self, attempt: Ended, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if attempt.started_at:  # else it was only buffered, and is released
            self.ran.add(attempt.finished_at - attempt.started_at)
            self.waited.add(max(0, attempt.waited_ms) / 1000)


class Meter:
    """Written by a worker once per settled group, read at each scrape."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bounded = Bounded()
        self._kept: dict[Pair, Numbers] = {}

    def add(self, attempts: Sequence[Ended], settled: set[int]) -> None:
        """Add a group; attempts that are not in `settled` no longer belonged to this worker."""
        with self._lock:
            for attempt in attempts:
                self._of(attempt.ready).add(
                    attempt, _outcome(attempt.transition) if attempt.ready.id in settled else DROPPED
                )

    def add_completed(self, attempts: Iterable[Ended]) -> None:
        """Add attempts that their handlers completed."""
        with self._lock:
            for attempt in attempts:
                self._of(attempt.ready).add(attempt, SUCCEEDED)

    def _of(self, ready: Ready) -> Numbers:
        pair = (ready.queue, ready.type)
        kept = self._kept.get(pair)
        return kept if kept is not None else self._kept.setdefault(self._bounded.label(pair), Numbers())

    def attempts(self) -> list[tuple[tuple[str, str, str], int]]:
        with self._lock:
            return [
                ((*pair, outcome), count)
                for pair, kept in sorted(self._kept.items())
                for outcome, count in sorted(kept.outcomes.items())
            ]

    def ran(self) -> list[tuple[Pair, list[tuple[str, float]], float]]:
        with self._lock:
            return [(pair, kept.ran.cumulative(), kept.ran.sum) for pair, kept in sorted(self._kept.items())]

    def waited(self) -> list[tuple[Pair, list[tuple[str, float]], float]]:
        with self._lock:
            return [(pair, kept.waited.cumulative(), kept.waited.sum) for pair, kept in sorted(self._kept.items())]


def _outcome(transition: Transition | None) -> str:
    if transition is SUCCESS:
        return SUCCEEDED
    assert transition is not None
    return OUTCOMES[transition.move]
