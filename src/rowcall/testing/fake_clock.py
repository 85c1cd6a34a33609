"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from rowcall.base.clock import SystemClock
from rowcall.base.text import seconds_from_text
from rowcall.domain.errors import InvalidOption, seconds_of

Duration = float | timedelta | str
START = datetime(2030, 1, 1, 12, tzinfo=UTC)


class FakeClock(SystemClock):
    """Replaces the database's clock: `Rowcall(url, clock=FakeClock())`.

    `advance` lets time pass: both the wall clock and the monotonic one move. `set` and `jump` set the wall clock, and
    leave the monotonic one alone. Sleeping and waiting take real time, which only `timer` shows.

    >>> clock = FakeClock()
    >>> clock.advance(90)
    >>> clock.jump(-3600)
    >>> clock.now().isoformat(), clock.monotonic()
    ('2030-01-01T11:01:30+00:00', 90.0)
    """

    def __init__(self, now: datetime = START, *, monotonic: float = 0.0) -> None:
        self._lock = threading.Lock()
        self._now = _aware(now)
        self._monotonic = monotonic

    def now(self) -> datetime:
        return self._now

    def wall(self) -> float:
        return self._now.timestamp()

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, duration: Duration) -> None:
        """Let time pass, on both clocks: seconds, a timedelta, or a text such as `"1 day"`."""
        passed = duration_of(duration)
        with self._lock:
            self._now += timedelta(seconds=passed)
            self._monotonic += passed

    def advance_monotonic(self, seconds: float | timedelta) -> None:
        """Let time pass that the wall clock does not show."""
        passed = seconds_of("seconds", seconds)
        with self._lock:
            self._monotonic += passed

    def jump(self, seconds: float | timedelta) -> None:
        """Set the wall clock forward, or back with a negative number; no time passes."""
        delta = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        with self._lock:
            self._now += delta

    def set(self, now: datetime) -> None:
        """Set the wall clock; no time passes."""
        with self._lock:
            self._now = _aware(now)


def duration_of(duration: Duration) -> float:
    """Return the seconds, or raise `InvalidOption`."""
    if not isinstance(duration, str):
        return seconds_of("advance", duration)
    seconds = seconds_from_text(duration)
    if seconds is None:
        raise InvalidOption("advance", f'must be a text such as "90 s", "2 hours" or "1 day", got {duration!r}')
    return seconds_of("advance", seconds)


def _aware(now: datetime) -> datetime:
    if now.tzinfo is None or now.utcoffset() is None:
        raise InvalidOption("now", f"must be a datetime with a time zone, such as datetime.now(UTC), got {now!r}")
    return now.astimezone(UTC)
