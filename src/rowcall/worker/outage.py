"""The database out of reach: said once when it begins, and once when it is over, whichever thread notices."""

from __future__ import annotations

import threading
import time

from rowcall.context import logger
from rowcall.errors import DataRefused, RowcallError


class Outage:
    """Shared by the threads of one worker. Only a write shows that it is over: a locked file can still be read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    def noticed(self, error: RowcallError) -> None:
        with self._lock:
            if self._since is not None:
                return
            self._since = time.monotonic()
        trouble = "refuses a round" if isinstance(error, DataRefused) else "is out of reach"
        logger.error("the database %s, trying again until that is over: %s", trouble, error)

    def over(self) -> None:
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            logger.info("the database is there again, after %.1f s", time.monotonic() - since)
