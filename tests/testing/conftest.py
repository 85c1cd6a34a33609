from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall.testing.postgres import PostgresServer


@pytest.fixture(scope="module")
def module_server() -> Iterator[PostgresServer]:
    """For tests that leave it running, with the same addresses."""
    with PostgresServer(in_memory=True) as server:
        yield server


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that an account other than root can reach, too; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="rowcall-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
