"""Looks for jobs that are held although their limit has room: by a race, or because it was raised."""

from __future__ import annotations

from rowcall.context import logger
from rowcall.queue.core import Core
from rowcall.store.plans.holding import find_room

SWEEP_SECONDS = 3.0


class Sweeper:
    """Some keys at each look, in turn. It reads; only what it finds is written."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._after = ""
        self._swept_at: float | None = None

    def look(self) -> int:
        """Gives how many jobs were made ready; nothing is done if the last look was a moment ago."""
        now = self._core.clock.monotonic()
        if self._swept_at is not None and now - self._swept_at < SWEEP_SECONDS:
            return 0
        self._swept_at = now
        return self._sweep()

    def look_at_all(self) -> int:
        unheld = self._sweep()
        while self._after:
            unheld += self._sweep()
        return unheld

    def _sweep(self) -> int:
        core = self._core
        found = core.read(find_room(core.dialect, self._after, core.now_ms()))
        self._after = found.after or ""
        if not found.places:
            return 0
        unheld = core.write(lambda: core.dialect.unhold(found.places))
        if unheld:
            logger.debug("%d jobs were held although their limits have room", unheld)
        return unheld
