"""Writes when long attempts that came out of the buffer have started."""

from __future__ import annotations

from rowcall.drivers.database import Connection
from rowcall.queue import Queue
from rowcall.worker.lanes.dispatcher import Dispatcher

MARK_AFTER_SECONDS = 1.0


class StartMarks:
    """A job that is claimed into the buffer starts later; its row says so if it runs for more than a second."""

    def __init__(self, core: Queue, dispatcher: Dispatcher, connection: Connection) -> None:
        self._core = core
        self._dispatcher = dispatcher
        self._connection = connection
        self._written_at = 0.0

    def write_if_due(self) -> None:
        clock = self._core.clock
        if clock.timer() - self._written_at < MARK_AFTER_SECONDS:
            return
        self._written_at = clock.timer()
        now = clock.monotonic()
        attempts = self._dispatcher.unmarked(MARK_AFTER_SECONDS)
        if attempts:
            marks = [(*attempt.fence, round((now - attempt.started_at) * 1000)) for attempt in attempts]
            self._connection.write(self._core.dialect.mark_started(marks, self._core.now_ms()))
        for attempt in attempts:
            attempt.marked = True
