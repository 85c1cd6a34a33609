"""The fixtures of the pytest plugin, as a project that names it gets them."""

from __future__ import annotations

import pytest

from rowcall.testing.clock import FakeClock
from rowcall.testing.plugin import rowcall_clock

__all__ = ["rowcall_clock"]


def test_the_clock_stands_still_until_it_is_moved(rowcall_clock: FakeClock) -> None:
    before = rowcall_clock.now()
    assert rowcall_clock.now() == before
    rowcall_clock.advance(60)
    assert (rowcall_clock.now() - before).total_seconds() == 60


def test_each_test_has_its_own(rowcall_clock: FakeClock, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue("rowcall_clock") is rowcall_clock
    assert rowcall_clock.now() == FakeClock().now()
