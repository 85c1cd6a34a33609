"""Wrong tokens: they are logged, and the more of them come from an address, the later they are answered."""

from __future__ import annotations

from collections import OrderedDict

from starlette.requests import Request

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.http.problems import Problem

AT_ONCE = 5
"""How many wrong tokens of one address are answered at once: someone has pasted the wrong one."""
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.25, 5.0
FORGOTTEN_AFTER_SECONDS = 600.0
MOST_ADDRESSES = 1000
MOST_DELAYED = 16
"""Of the 512 connections of a server: the others stay free for everyone else."""
MOST_LINES, LINES_SECONDS = 20, 60.0


class WrongTokens:
    """A right token is never delayed: behind a proxy, all clients may have one address.

    Without `delays`, answers that would be late are refused at once: a WSGI server would keep a thread for each.
    """

    def __init__(self, clock: Clock, *, delays: bool) -> None:
        self._clock = clock
        self._most_delayed = MOST_DELAYED if delays else 0
        self._delayed = 0
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._lines, self._lines_since = 0, clock.monotonic()

    async def slow_down(self, request: Request) -> None:
        """Wait before a wrong token is answered, or raise a `Problem` if too many wait."""
        address = "" if request.client is None else request.client.host
        count = self._count(address)
        self._log(address, count)
        if count <= AT_ONCE:
            return
        seconds = min(FIRST_DELAY_SECONDS * 2 ** min(count - AT_ONCE - 1, 10), LONGEST_DELAY_SECONDS)
        if self._delayed >= self._most_delayed:
            headers = {"retry-after": str(round(LONGEST_DELAY_SECONDS))}
            raise Problem(429, "Too many requests", "too many wrong tokens; try again later", headers=headers)
        self._delayed += 1
        try:
            await self._clock.asleep(seconds)
        finally:
            self._delayed -= 1

    def _count(self, address: str) -> int:
        now = self._clock.monotonic()
        count, last_at = self._counts.pop(address, (0, now))
        count = 1 if now - last_at > FORGOTTEN_AFTER_SECONDS else count + 1
        self._counts[address] = count, now
        if len(self._counts) > MOST_ADDRESSES:
            self._counts.popitem(last=False)
        return count

    def _log(self, address: str, count: int) -> None:
        """Log the first wrong token of an address, the second, the fourth and so on; at most some lines a minute."""
        now = self._clock.monotonic()
        if now - self._lines_since >= LINES_SECONDS:
            self._lines, self._lines_since = 0, now
        if count & (count - 1) == 0 and self._lines < MOST_LINES:
            self._lines += 1
            logger.warning("refused a wrong token from %.60r (%d of this address lately)", address, count)
