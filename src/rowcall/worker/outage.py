"""When the database is unreachable or locked: log it once, wait ever longer, and continue."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rowcall.base.clock import Clock, jittered
from rowcall.base.text import duration
from rowcall.context import logger
from rowcall.domain.errors import Conflict, DataRefused, RowcallError, SchemaMismatch
from rowcall.worker.pace import (
    CONFLICT_SECONDS,
    FIRST_OUTAGE_SECONDS,
    LAST_OUTAGE_SECONDS,
    MOST_CONFLICTS,
    STOPPING_OUTAGE_SECONDS,
)


class Outage:
    """Logs an outage when it begins and when it ends. It lasts until each thread that met it has succeeded again."""

    def __init__(self, clock: Clock) -> None:
        self._timer = clock.timer
        self._lock = threading.Lock()
        self._since = 0.0
        self._in_trouble: set[str] = set()

    def noticed(self, thread: str, error: RowcallError) -> None:
        with self._lock:
            begins = not self._in_trouble
            self._in_trouble.add(thread)
            if not begins:
                return
            self._since = self._timer()
        if isinstance(error, SchemaMismatch):  # it ends the loop: there is no next try
            logger.error("%s", error)
            return
        trouble = "refused a round" if isinstance(error, DataRefused) else "is out of reach"
        logger.error("the database %s, trying again until it succeeds: %s", trouble, error)

    def over(self, thread: str) -> None:
        if thread not in self._in_trouble:
            return
        with self._lock:
            self._in_trouble.discard(thread)
            ends = not self._in_trouble
        if ends:
            logger.info("the database is back after %s", duration(self._timer() - self._since))


class Trouble:
    """The pauses of the loop after errors."""

    def __init__(self, outage: Outage, clock: Clock, pause: Callable[[float], None]) -> None:
        self._outage = outage
        self._clock = clock
        self._pause = pause
        self._seconds = 0.0
        self._conflicts = 0

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the last try to write failed."""
        return self._seconds > 0

    def succeeded(self) -> None:
        self._seconds = 0.0
        self._conflicts = 0

    def round_succeeded(self) -> None:
        self._outage.over("loop")

    def conflict(self, error: Conflict, *, stopping: bool) -> None:
        """Another transaction has the same rows, which is over in a moment; if not, treat it as an outage."""
        self._conflicts += 1
        if self._conflicts > MOST_CONFLICTS:
            self.failed(error, stopping=stopping)
        else:
            self._pause(CONFLICT_SECONDS * self._clock.chance())

    def failed(self, error: RowcallError, *, stopping: bool) -> None:
        self._outage.noticed("loop", error)
        self._seconds = min(max(FIRST_OUTAGE_SECONDS, self._seconds * 2), LAST_OUTAGE_SECONDS)
        longest = STOPPING_OUTAGE_SECONDS if stopping else LAST_OUTAGE_SECONDS
        # a fleet that was cut off together must not come back together
        self._pause(jittered(self._clock, min(self._seconds, longest)))
