"""Attempts that ended, counted and timed by queue and task: kept as plain numbers, and cheap to add to."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Protocol

from rowcall.domain.lifecycle import OUTCOMES, SUCCESS, Transition
from rowcall.store.dialect import Ready

MOST_PAIRS = 200
OTHER = "other"
BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
SUCCEEDED, DROPPED = "succeeded", "dropped"

Pair = tuple[str, str]


class Ended(Protocol):
    """An attempt of this process that is over."""

    @property
    def ready(self) -> Ready: ...
    @property
    def transition(self) -> Transition | None: ...
    @property
    def started_at(self) -> float: ...
    @property
    def finished_at(self) -> float: ...
    @property
    def waited_ms(self) -> int: ...


class Bounded:
    """The first so many label values are themselves; all that come later share one."""

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
    """A histogram: how many lasted up to each limit, and how long all of them together."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        if seconds < 0:  # somebody has set a clock
            seconds = 0.0
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.sum += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Each limit with the number of those that did not exceed it."""
        total, buckets = 0, []
        for limit, count in zip((*map(str, BUCKETS_SECONDS), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((limit, float(total)))
        return buckets


class Numbers:
    """What is known of one queue and task."""

    __slots__ = ("outcomes", "ran", "waited")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.ran = Durations()
        self.waited = Durations()

    def add(self, attempt: Ended, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if attempt.started_at:  # else it only lay in the buffer, and is given back
            self.ran.add(attempt.finished_at - attempt.started_at)
            self.waited.add(max(0, attempt.waited_ms) / 1000)


class Meter:
    """Written by a worker once for each group that was settled, read by whoever asks for the metrics."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bounded = Bounded()
        self._kept: dict[Pair, Numbers] = {}

    def add(self, attempts: Sequence[Ended], settled: set[int]) -> None:
        """Those that are not in `settled` were somebody else's by then."""
        with self._lock:
            for attempt in attempts:
                self._of(attempt.ready).add(
                    attempt, _outcome(attempt.transition) if attempt.ready.id in settled else DROPPED
                )

    def add_completed(self, attempts: Iterable[Ended]) -> None:
        """Those that their handlers completed in transactions of their own."""
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
