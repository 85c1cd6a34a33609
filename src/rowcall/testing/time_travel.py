"""A fake clock that runs the jobs which fall due while it moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from rowcall.app import Rowcall, queue_of
from rowcall.base.times import time_of
from rowcall.operations.effects import Read
from rowcall.store.queries.claims import EVERY_QUEUE, FIND_WORK
from rowcall.testing.fake_clock import START, Duration, FakeClock, duration_of
from rowcall.worker.raised_errors import RaisedErrors, raising
from rowcall.worker.settings import settings
from rowcall.worker.worker import Worker


class TravelClock(FakeClock):
    """A `FakeClock` whose `advance` runs what becomes due, each job at its own time: what `rowcall_clock` is.

    >>> clock = TravelClock()
    >>> clock.advance("1 day")
    >>> clock.now().isoformat()
    '2030-01-02T12:00:00+00:00'
    """

    def __init__(self, now: datetime = START, *, monotonic: float = 0.0) -> None:
        super().__init__(now, monotonic=monotonic)
        self._apps: tuple[Rowcall, ...] = ()

    @contextmanager
    def of(self, *apps: Rowcall) -> Iterator[None]:
        """Run the jobs of these queues while time passes."""
        before, self._apps = self._apps, apps
        try:
            yield
        finally:
            self._apps = before

    def advance(self, duration: Duration, *, run: bool = True, raise_errors: bool = True) -> None:
        """Let time pass, and run the jobs, retries and schedules that fall due, in the order of their times.

        Raise what handlers raised, at the end, as `jobs.drain(raise_errors=True)` does. With `run=False`, only let
        time pass.
        """
        until = self.now() + timedelta(seconds=duration_of(duration))
        if run and self._apps:
            with raising(raise_errors) as errors:
                self._drain(errors)  # also writes the declared schedules, with their next times
                while (due := self._next_due()) is not None and self.now() < due <= until:
                    self._move_to(due)
                    self._drain(errors)
                self._move_to(until)
                if due is not None and due <= until:  # something due cannot be done: it hides what comes later
                    self._drain(errors)
        else:
            self._move_to(until)

    def _move_to(self, at: datetime) -> None:
        super().advance(at - self.now())

    def _drain(self, errors: RaisedErrors | None) -> None:
        for jobs in self._apps:
            Worker(queue_of(jobs), settings()).drain(errors)

    def _next_due(self) -> datetime | None:
        """Return when the next job, retry, expiry or schedule is due."""
        times = []
        for queue in map(queue_of, self._apps):
            (work,) = queue.run(Read(queue.dialect.ask(FIND_WORK, "", *EVERY_QUEUE)))
            times += [] if work.next_at_ms is None else [time_of(work.next_at_ms)]
        return min(times, default=None)
