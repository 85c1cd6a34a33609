"""The counts of a database as a scrape needs them: not asked for too often, and never waited for too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rowcall.job import Stats

FRESH_SECONDS = 5.0
PATIENCE_SECONDS = 3.0


class Counts:
    """`latest` gives None while the database does not answer, or not in time. It never raises."""

    def __init__(self, ask: Callable[[], Stats], *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._ask = ask
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._stats: Stats | None = None
        self._asked_at = -FRESH_SECONDS

    def latest(self) -> Stats | None:
        with self._lock:
            if time.monotonic() - self._asked_at < FRESH_SECONDS and self._stats is not None:
                return self._stats
            if self._asking is None:
                self._asking = threading.Thread(target=self._refresh, name="rowcall-counts", daemon=True)
                self._asking.start()
            asking = self._asking
        asking.join(self._patience_seconds)
        with self._lock:
            return None if asking is self._asking else self._stats

    def _refresh(self) -> None:
        stats = None
        try:
            stats = self._ask()
        except Exception:
            pass  # the worker itself says what is wrong with the database
        finally:
            with self._lock:
                self._stats, self._asked_at, self._asking = stats, time.monotonic(), None
