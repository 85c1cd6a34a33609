"""Looks for jobs that are held although their limit has room: by a race, or because it was raised."""

from __future__ import annotations

from rowcall.context import logger
from rowcall.queue.core import Core
from rowcall.store.limits.held_jobs import MOST_FREED, find_room

SWEEP_SECONDS = 3.0


class Sweeper:
    """Some keys at each look, in turn. It reads; only what it finds is written."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._after = ""
        self._again: dict[str, int] = {}
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
        self._again = {key: count for key, count in self._again.items() if found.after or key in found.places}
        self._after = found.after or ""
        if not found.places:
            return 0
        places = {key: self._more_each_time(key, count) for key, count in found.places.items()}
        unheld = core.write(lambda: core.dialect.unhold(places))
        if unheld:
            logger.debug("%d jobs were held although their limits have room", unheld)
        return unheld

    def _more_each_time(self, key: str, places: int) -> int:
        """Where nobody takes those that were made ready, as their queue is paused or their task unknown, others may."""
        self._again[key] = min(max(places, self._again.get(key, 0) * 8), MOST_FREED)
        return self._again[key]
