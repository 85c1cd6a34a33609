"""Frees jobs that are held although their limit has room: because of a race, or because it was raised.

Frees jobs that plain SQL holds for an unknown reason, too: no other part would ever find them.
"""

from __future__ import annotations

from rowcall.context import logger
from rowcall.operations.effects import Read, Write
from rowcall.overview.formats import counted
from rowcall.queue import Queue
from rowcall.store.limits.held_jobs import MOST_FREED, find_room
from rowcall.store.order.first_in_order import make_ready
from rowcall.worker.pace import HELD_GROWTH, HELD_PAUSE_SECONDS


class HeldJobs:
    """Checks a few values of `held` at a time, in turn. It reads, and writes only if it finds something."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._after = ""
        self._again: dict[str, int] = {}
        self._checked_at: float | None = None

    def check(self) -> int:
        """Return how many jobs were freed. Do nothing if the last check was a moment ago."""
        now = self._queue.clock.monotonic()
        if self._checked_at is not None and now - self._checked_at < HELD_PAUSE_SECONDS:
            return 0
        self._checked_at = now
        return self._free_some()

    def check_all(self) -> int:
        freed = self._free_some()
        while self._after:
            freed += self._free_some()
        return freed

    def _free_some(self) -> int:
        queue = self._queue
        room = queue.run(Read(find_room(queue.dialect, queue.declared.limits.declared, self._after)))
        self._again = {held: count for held, count in self._again.items() if room.after or held in room.counts}
        self._after = room.after or ""
        if not room.counts:
            return 0
        counts = {held: self._more_each_time(held, count) for held, count in room.counts.items()}
        freed = queue.run(Write(make_ready, queue.dialect, counts))
        if freed:
            logger.debug("freed %s: held, although no limit holds them", counted(freed, "job"))
        return freed

    def _more_each_time(self, held: str, count: int) -> int:
        """The freed jobs may not run, as their queue is paused or their task unknown: free others, too."""
        self._again[held] = min(max(count, self._again.get(held, 0) * HELD_GROWTH), MOST_FREED)
        return self._again[held]
