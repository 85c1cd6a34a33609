"""Time and chance. No other module reads a clock, sleeps, waits with a timeout or draws a random number."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Subclass `SystemClock` to change a part of it."""

    def now(self) -> datetime | None:
        """Return the queue's time, or None to use the database's own clock."""

    def wall(self) -> float:
        """Return this machine's time in seconds since 1970. Jobs go by `now`, never by this."""

    def monotonic(self) -> float:
        """Return seconds that never go backwards and pass while the machine is suspended: for leases and ages."""

    def timer(self) -> float:
        """Return seconds that pass while this process waits: for pauses and timeouts."""

    def sleep(self, seconds: float) -> None: ...

    async def asleep(self, seconds: float) -> None: ...

    def wait(self, event: threading.Event, seconds: float | None = None) -> bool:
        """Wait until the event is set, at most `seconds`. Return whether it is set."""

    async def within(self, awaitable: Awaitable[T], seconds: float | None) -> T:
        """Await at most `seconds`, or raise `TimeoutError`."""

    def chance(self) -> float:
        """Return a random number from 0 up to, but not including, 1."""


class SystemClock:
    """The clocks of this machine; the time of jobs is that of the database."""

    def now(self) -> datetime | None:
        return None

    wall: Callable[[], float] = staticmethod(time.time)

    # CLOCK_BOOTTIME also counts while the machine is suspended, as the clocks of workers on other machines do
    monotonic: Callable[[], float] = staticmethod(
        partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
    )

    timer: Callable[[], float] = staticmethod(time.monotonic)

    sleep: Callable[[float], None] = staticmethod(time.sleep)

    async def asleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float | None = None) -> bool:
        return event.wait(seconds)

    async def within(self, awaitable: Awaitable[T], seconds: float | None) -> T:
        return await asyncio.wait_for(awaitable, seconds)

    chance: Callable[[], float] = staticmethod(random.random)


SYSTEM_CLOCK = SystemClock()
"""For drivers alone: locks, files and servers take real time, whatever clock a queue has."""


def jittered(clock: Clock, seconds: float) -> float:
    """Return a random time between half of `seconds` and all of it, so that a fleet does not act all at once."""
    return seconds * (0.5 + 0.5 * clock.chance())
