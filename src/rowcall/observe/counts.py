"""The counts that a scrape reports: not queried too often, and never waited for too long."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rowcall.base.clock import Clock
from rowcall.domain.job import Stats

FRESH_SECONDS = 5.0
PATIENCE_SECONDS = 3.0
STALE_SECONDS = 30.0


class Counts:
    """`latest` returns None when the database has failed, or has not answered for a while. It never raises."""

    def __init__(
        self,
        ask: Callable[[], Stats],
        clock: Clock,
        *,
        fresh_seconds: float = FRESH_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        self._ask = ask
        self._timer = clock.timer
        self._fresh_seconds = fresh_seconds
        self._patience_seconds = patience_seconds
        self._stale_seconds = stale_seconds
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._stats: Stats | None = None
        self._answered_at = 0.0

    def latest(self) -> Stats | None:
        with self._lock:
            if (found := self._known(self._fresh_seconds)) is not None:
                return found
            if self._asking is None:
                self._asking = threading.Thread(target=self._refresh, name="rowcall-counts", daemon=True)
                self._asking.start()
            asking = self._asking
        asking.join(self._patience_seconds)
        with self._lock:
            return self._known(self._stale_seconds)

    def _known(self, seconds: float) -> Stats | None:
        return self._stats if self._timer() - self._answered_at < seconds else None

    def _refresh(self) -> None:
        stats = None
        try:
            stats = self._ask()
        except Exception:
            pass  # the worker itself logs what is wrong with the database
        finally:
            with self._lock:
                self._stats, self._answered_at, self._asking = stats, self._timer(), None
