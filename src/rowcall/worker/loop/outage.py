"""The database out of reach: said once when it begins, and once when it is over, whichever thread notices."""

from __future__ import annotations

import threading
import time
from typing import Literal

from rowcall.context import logger
from rowcall.domain.errors import DataRefused, RowcallError, SchemaMismatch

Who = Literal["loop", "heart", "watcher", "janitor"]


class Outage:
    """Shared by the threads of one worker. It lasts until each of those who noticed it got through again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = 0.0
        self._in_trouble: set[Who] = set()

    def noticed(self, who: Who, error: RowcallError) -> None:
        with self._lock:
            begins = not self._in_trouble
            self._in_trouble.add(who)
            if not begins:
                return
            self._since = time.monotonic()
        if isinstance(error, SchemaMismatch):  # which ends the loop: nothing is promised here
            logger.error("%s", error)
            return
        trouble = "refuses a round" if isinstance(error, DataRefused) else "is out of reach"
        logger.error("the database %s, trying again until that is over: %s", trouble, error)

    def over(self, who: Who) -> None:
        if who not in self._in_trouble:
            return
        with self._lock:
            self._in_trouble.discard(who)
            ends = not self._in_trouble
        if ends:
            logger.info("the database is there again, after %.1f s", time.monotonic() - self._since)
