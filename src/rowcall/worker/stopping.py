"""How a worker stops: it claims no more, then asks its handlers to end, then ends without them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.overview.formats import counted
from rowcall.worker.pace import FORCE_AFTER_SECONDS


class Shutdown:
    """`stop_handlers` asks every handler to end, `wake` ends the wait of the loop."""

    def __init__(self, clock: Clock, stop_handlers: Callable[[], None], wake: Callable[[], None]) -> None:
        self._clock = clock
        self._stop_handlers = stop_handlers
        self._wake = wake
        self._asked = threading.Event()
        self._timer: threading.Timer | None = None
        self._forced_at = 0.0
        self.is_forced = False
        """Whether to release what still runs now."""

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    def ask(self, grace_seconds: float) -> None:
        self._asked.set()
        self._start_timer(grace_seconds, self._end_grace)
        self._wake()

    def _end_grace(self) -> None:
        """Ask the handlers to end, and give them a moment."""
        self._stop_handlers()
        self._start_timer(FORCE_AFTER_SECONDS, self.force)
        self._wake()

    def force(self) -> None:
        self.is_forced = True
        self._wake()

    def is_overdue(self, unsettled: int, *, out_of_reach: bool) -> bool:
        """Return whether the last outcomes cannot be written: other workers will recover the jobs."""
        if not self.is_forced or not out_of_reach:
            return False
        self._forced_at = self._forced_at or self._clock.timer()
        overdue = self._clock.timer() - self._forced_at > FORCE_AFTER_SECONDS
        if overdue:
            left = counted(unsettled, "job")
            logger.error("could not settle or release %s; other workers will recover them", left)
        return overdue

    def cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _start_timer(self, seconds: float, end: Callable[[], None]) -> None:
        self.cancel_timer()
        self._timer = threading.Timer(seconds, end)
        self._timer.daemon = True
        self._timer.start()
