"""A pytest plugin: `pytest_plugins = ["rowcall.testing.plugin"]` in a conftest."""

from __future__ import annotations

import pytest

from rowcall.testing.clock import FakeClock


@pytest.fixture
def rowcall_clock() -> FakeClock:
    """A clock that stands still: `Rowcall(url, clock=rowcall_clock)`, then `rowcall_clock.advance(60)`."""
    return FakeClock()
