"""Counts that readers share while counting is slow: millions of waiting jobs must not keep the database busy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rowcall.base.clock import Clock
from rowcall.domain.job import Stats

SLOW_SECONDS, REUSED_FOR, LONGEST_SECONDS = 0.05, 20, 20.0


class SharedCounts:
    """The latest statistics of each window. They are reused only if it took long to read them, and then briefly."""

    def __init__(self, clock: Clock) -> None:
        self._timer = clock.monotonic
        self._found: dict[float, tuple[float, Stats]] = {}

    async def read(self, window: float, ask: Callable[[], Awaitable[Stats]]) -> Stats:
        """Return what `ask` returned a moment ago, or ask again."""
        began = self._timer()
        until, found = self._found.get(window, (began, None))
        if found is not None and began < until:
            return found
        found = await ask()
        took = self._timer() - began
        self._found = {kept: one for kept, one in self._found.items() if began < one[0]}
        if took >= SLOW_SECONDS:
            self._found[window] = (began + took + min(took * REUSED_FOR, LONGEST_SECONDS), found)
        return found

    def forget(self) -> None:
        """Ask again, because something has changed."""
        self._found.clear()
