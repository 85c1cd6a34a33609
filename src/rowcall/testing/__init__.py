"""For tests of code that uses Rowcall, and for databases that want to carry it."""

from rowcall.testing.clock import FakeClock
from rowcall.testing.waiting import eventually

__all__ = ["FakeClock", "eventually"]
