"""Fixtures for all tests that run workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.worker.support import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.jobs.close()


@pytest.fixture
def jobs(place: Place) -> Rowcall:
    """A queue of this process, in the place's database."""
    return place.jobs
