"""Vacuums what claims delete on PostgreSQL. Searches go through deleted rows, and autovacuum comes once a minute."""

from __future__ import annotations

import threading

from rowcall.queue import Queue
from rowcall.worker.service import Background

VACUUM_AFTER = 20_000
"""Claims after which searches become measurably slower."""
LEAST_PAUSE_SECONDS, USELESS_PAUSE_SECONDS = 1.0, 60.0
"""A vacuum that could remove nothing, because of an old snapshot, is not worth another one soon."""
SHARE_OF_TIME = 0.05
"""Vacuums take at most this share of the time."""


class Vacuum:
    """Takes at most a twentieth of the time, and pauses for a minute where a vacuum is of no use."""

    def __init__(self, queue: Queue, *, after: int = VACUUM_AFTER) -> None:
        self._queue = queue
        self._after = after
        self._claimed = 0
        self._is_useful = True
        self._is_due = threading.Event()
        self.thread = Background("vacuum", self._run, queue.clock, wake=self._is_due)

    def note_claimed(self, jobs: int) -> None:
        """Called in the loop's thread."""
        self._claimed += jobs
        if self._claimed >= self._after:
            self._claimed = 0
            self._is_due.set()

    def _run(self, thread: Background) -> None:
        timer = self._queue.clock.timer
        while self._is_due.wait():
            self._is_due.clear()
            if thread.stopping():
                return
            began = timer()
            useful = thread.attempt(self._vacuum) and self._is_useful
            pause = max(LEAST_PAUSE_SECONDS, (timer() - began) / SHARE_OF_TIME)
            thread.pause(pause if useful else USELESS_PAUSE_SECONDS)

    def _vacuum(self) -> None:
        self._is_useful = self._queue.database.vacuum_ready()
