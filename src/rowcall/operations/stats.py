"""The five questions of whoever is on call."""

from __future__ import annotations

from datetime import timedelta

from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.job import ErrorGroup, InProgress, RetentionReport, Retries, Stats
from rowcall.operations.retention import rules_of
from rowcall.queue import Queue
from rowcall.store.counts import questions
from rowcall.store.statement import Plan

DEFAULT_WINDOW_SECONDS = 300.0
LONGEST_WINDOW_SECONDS = 30 * 86_400.0
MOST_SHOWN = 1000


class Observing(Queue):
    def stats(self, *, window: float | timedelta = DEFAULT_WINDOW_SECONDS) -> Stats:
        """How many jobs there are in each state, how long the oldest waits, how fast they come and go.

        Rates and percentiles are about the last `window` seconds, from a full minute on.
        """
        window_ms = _window_ms(window)
        return self.read_together(lambda: questions.stats(self.dialect, window_ms, self.now_ms()))

    async def astats(self, *, window: float | timedelta = DEFAULT_WINDOW_SECONDS) -> Stats:
        window_ms = _window_ms(window)
        return await self.aread_together(lambda: questions.stats(self.dialect, window_ms, self.now_ms()))

    def stuck(self, *, limit: int = 20) -> list[InProgress]:
        """Running jobs, longest without a sign of life first."""
        _check_limit(limit)
        return self.read_together(lambda: questions.stuck(self.dialect, limit, self.now_ms()))

    async def astuck(self, *, limit: int = 20) -> list[InProgress]:
        _check_limit(limit)
        return await self.aread_together(lambda: questions.stuck(self.dialect, limit, self.now_ms()))

    def retries(self) -> Retries:
        """How many jobs have used how many attempts, in all and by type."""
        return self.read_together(lambda: questions.retries(self.dialect))

    async def aretries(self) -> Retries:
        return await self.aread_together(lambda: questions.retries(self.dialect))

    def top_errors(self, *, limit: int = 20) -> list[ErrorGroup]:
        """Failed jobs by error code, most frequent first."""
        _check_limit(limit)
        return self.read_together(lambda: questions.top_errors(self.dialect, limit))

    async def atop_errors(self, *, limit: int = 20) -> list[ErrorGroup]:
        _check_limit(limit)
        return await self.aread_together(lambda: questions.top_errors(self.dialect, limit))

    def retention(self) -> RetentionReport:
        """What is kept, for how long, and what the next prune deletes."""
        return self.read_together(self._retention)

    async def aretention(self) -> RetentionReport:
        return await self.aread_together(self._retention)

    def _retention(self) -> Plan[RetentionReport]:
        rules = yield from rules_of(self)
        return (yield from questions.retention(self.dialect, rules, self.now_ms()))


def _window_ms(window: float | timedelta) -> int:
    seconds = seconds_of("window", window)
    if not 1 <= seconds <= LONGEST_WINDOW_SECONDS:
        raise InvalidOption("window", f"wants from 1 second to the 30 days of history there are, not {window!r}")
    return round(seconds * 1000)


def _check_limit(limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_SHOWN:
        raise InvalidOption("limit", f"wants a whole number from 1 to {MOST_SHOWN}, not {limit!r}")
