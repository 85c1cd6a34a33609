"""Fixtures for all tests that run workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.worker.support import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.jobs.close()


@pytest.fixture
def jobs(site: Site) -> Rowcall:
    """A queue of this process, in the site's database."""
    return site.jobs
