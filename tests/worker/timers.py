"""A clock whose timer moves only when a test moves it."""

from __future__ import annotations

from rowcall.base.clock import SystemClock


class StoppedClock(SystemClock):
    def __init__(self) -> None:
        self.at = 1000.0
        self.timer = lambda: self.at
        self.monotonic = lambda: self.at
        self.chance = lambda: 1.0
