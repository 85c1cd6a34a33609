"""Where time comes from. The database's own clock rules; a test may put its own in front of it."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime | None:
        """The wall clock, or None: ask the database."""

    def monotonic(self) -> float:
        """Seconds that never go back, for pauses and patience."""


class SystemClock:
    def now(self) -> datetime | None:
        return None

    # where there is one, the clock that goes on while the machine is suspended: workers on other machines go on, too
    monotonic = staticmethod(
        partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
    )
