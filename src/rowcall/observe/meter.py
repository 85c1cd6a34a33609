"""Counts and times the attempts that ended, by queue and task, in plain numbers."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from rowcall.base.clock import Clock
from rowcall.base.text import duration, one_line
from rowcall.domain.job import Stats
from rowcall.domain.outcome import OUTCOMES, SUCCESS, Transition
from rowcall.store.queries.claims import Ready
from rowcall.store.recovery.recover import RecoveredAttempt

T = TypeVar("T")

MOST_PAIRS = 200
OTHER = "other"
BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
SUCCEEDED, DROPPED = "succeeded", "dropped"
FRESH_SECONDS = 5.0
PATIENCE_SECONDS = 3.0
STALE_SECONDS = 30.0

Pair = tuple[str, str]


class QueueFacts(NamedTuple):
    """What the database answered: counts, and how many findings of each code need attention."""

    stats: Stats
    attention: Mapping[str, int]


class EndedAttempt(Protocol):
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


class DurationHistogram:
    """A histogram: how many lasted up to each bound, and their total time."""

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
        """Return each bound with the number of durations up to it."""
        total, buckets = 0, []
        for limit, count in zip((*map(str, BUCKETS_SECONDS), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((limit, float(total)))
        return buckets


class AttemptNumbers:
    """The figures of one queue and task."""

    __slots__ = ("outcomes", "ran", "waited")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.ran = DurationHistogram()
        self.waited = DurationHistogram()

    def add(self, attempt: EndedAttempt, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if attempt.started_at:  # else it was only buffered, and is released
            self.ran.add(attempt.finished_at - attempt.started_at)
            self.waited.add(max(0, attempt.waited_ms) / 1000)


class Meter:
    """Written by a worker once per settled group, read at each scrape."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bounded = Bounded()
        self._kept: dict[Pair, AttemptNumbers] = {}
        self._recovered: Counter[Pair] = Counter()
        self._lost: Counter[Pair] = Counter()

    def add(self, attempts: Sequence[EndedAttempt], settled: set[int]) -> None:
        """Add a group; attempts that are not in `settled` no longer belonged to this worker."""
        with self._lock:
            for attempt in attempts:
                self._of(attempt.ready).add(
                    attempt, _outcome(attempt.transition) if attempt.ready.id in settled else DROPPED
                )

    def add_completed(self, attempts: Iterable[EndedAttempt]) -> None:
        """Add attempts that their handlers completed."""
        with self._lock:
            for attempt in attempts:
                self._of(attempt.ready).add(attempt, SUCCEEDED)

    def add_recovered(self, attempts: Iterable[RecoveredAttempt]) -> None:
        """Add attempts of lost workers that this worker recovered."""
        with self._lock:
            for attempt in attempts:
                label = self._bounded.label((attempt.job.queue, attempt.job.type))
                self._recovered[label] += 1
                self._lost[label] += attempt.started

    def _of(self, ready: Ready) -> AttemptNumbers:
        pair = (ready.queue, ready.type)
        kept = self._kept.get(pair)
        return kept if kept is not None else self._kept.setdefault(self._bounded.label(pair), AttemptNumbers())

    def recovered(self) -> list[tuple[Pair, int]]:
        with self._lock:
            return sorted(self._recovered.items())

    def lost(self) -> list[tuple[Pair, int]]:
        with self._lock:
            return sorted(self._lost.items())

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


class Latest(Generic[T]):
    """The latest answer of the database to a question. A thread asks, so that a scrape does not wait for long.

    `latest` returns None when the database has failed, or has not answered for a while. It never raises.
    """

    def __init__(
        self,
        ask: Callable[[], T],
        clock: Clock,
        *,
        fresh_seconds: float = FRESH_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        self._ask = ask
        self._timer = clock.timer
        self._fresh_seconds = fresh_seconds
        self._patience_seconds = patience_seconds
        self._stale_seconds = stale_seconds
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._answer: T | None = None
        self._answered_at = self._asked_at = 0.0
        self._error = ""

    @property
    def problem(self) -> str:
        """Why `latest` returned None."""
        with self._lock:
            since = self._timer() - self._asked_at
            return self._error or f"no answer for {duration(since)}"

    def latest(self) -> T | None:
        with self._lock:
            if (found := self._known(self._fresh_seconds)) is not None:
                return found
            if self._asking is None:
                self._asking = threading.Thread(target=self._refresh, name="rowcall-counts", daemon=True)
                self._asked_at, self._error = self._timer(), ""
                self._asking.start()
            asking = self._asking
        asking.join(self._patience_seconds)
        with self._lock:
            return self._known(self._stale_seconds)

    def _known(self, seconds: float) -> T | None:
        return self._answer if self._timer() - self._answered_at < seconds else None

    def _refresh(self) -> None:
        answer, problem = None, ""
        try:
            answer = self._ask()
        except Exception as error:  # the worker itself logs what is wrong with the database
            problem = one_line(str(error) or type(error).__name__)
        finally:
            with self._lock:
                self._answer, self._answered_at, self._asking, self._error = answer, self._timer(), None, problem
