"""Where time comes from. The database's own clock rules; a test may put its own in front of it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime | None:
        """The wall clock, or None: ask the database."""

    def monotonic(self) -> float:
        """Seconds that never go back, for pauses and patience."""


class SystemClock:
    def now(self) -> datetime | None:
        return None

    def monotonic(self) -> float:
        return time.monotonic()
