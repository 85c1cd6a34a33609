"""Helpers for tests of code that uses Rowcall."""

from rowcall.testing.assertions import assert_enqueued, assert_not_enqueued
from rowcall.testing.clean_queue import clean_queue
from rowcall.testing.deadline import eventually
from rowcall.testing.fake_clock import FakeClock
from rowcall.testing.inline import inline
from rowcall.testing.time_travel import TravelClock
from rowcall.testing.unittest import RowcallTestCase

__all__ = [
    "FakeClock",
    "RowcallTestCase",
    "TravelClock",
    "assert_enqueued",
    "assert_not_enqueued",
    "clean_queue",
    "eventually",
    "inline",
]
