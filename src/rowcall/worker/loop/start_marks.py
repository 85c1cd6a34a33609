"""Writes when long attempts that came out of the buffer have started."""

from __future__ import annotations

from dataclasses import dataclass

from rowcall.drivers.database import Connection
from rowcall.queue import Queue
from rowcall.store.jobs.marks import mark_started
from rowcall.worker.lanes.dispatcher import Dispatcher

MARK_AFTER_SECONDS = 1.0


@dataclass(eq=False)
class StartMarks:
    """A job that is claimed into the buffer starts later; its row says so if it runs for more than a second."""

    queue: Queue
    dispatcher: Dispatcher
    connection: Connection
    _written_at: float = 0.0

    def write_if_due(self) -> None:
        clock = self.queue.clock
        if clock.timer() - self._written_at < MARK_AFTER_SECONDS:
            return
        self._written_at = clock.timer()
        now = clock.monotonic()
        attempts = self.dispatcher.unmarked(MARK_AFTER_SECONDS)
        if attempts:
            marks = [(*attempt.fence, round((now - attempt.started_at) * 1000)) for attempt in attempts]
            self.connection.write(mark_started(self.queue.dialect, marks, self.queue.now_ms()))
        for attempt in attempts:
            attempt.marked = True
