"""The database out of reach: logged once when it begins and once when it is over, whichever thread notices."""

from __future__ import annotations

import threading

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.domain.errors import DataRefused, RowcallError, SchemaMismatch


class Outage:
    """Shared by the threads of one worker. It lasts until each thread that noticed it has succeeded again."""

    def __init__(self, clock: Clock) -> None:
        self._timer = clock.timer
        self._lock = threading.Lock()
        self._since = 0.0
        self._in_trouble: set[str] = set()

    def noticed(self, who: str, error: RowcallError) -> None:
        with self._lock:
            begins = not self._in_trouble
            self._in_trouble.add(who)
            if not begins:
                return
            self._since = self._timer()
        if isinstance(error, SchemaMismatch):  # which ends the loop: there is no next try
            logger.error("%s", error)
            return
        trouble = "refused a round" if isinstance(error, DataRefused) else "is out of reach"
        logger.error("the database %s, trying again until it succeeds: %s", trouble, error)

    def over(self, who: str) -> None:
        if who not in self._in_trouble:
            return
        with self._lock:
            self._in_trouble.discard(who)
            ends = not self._in_trouble
        if ends:
            logger.info("the database is back after %.1f s", self._timer() - self._since)
