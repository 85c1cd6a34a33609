"""Helpers for tests of code that uses Rowcall, and the conformance kit for databases."""

from rowcall.testing.clock import FakeClock
from rowcall.testing.waiting import eventually

__all__ = ["FakeClock", "eventually"]
