"""Files of every age, to ask SQLite how it would run a statement there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from tests.store.databases import fill, migrated


@pytest.fixture(scope="session", params=["empty", "empty, analyzed", "full", "full, analyzed"])  # no test writes to it
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    with migrated(tmp_path_factory.mktemp("plans") / "app.db") as connection:
        if "full" in request.param:
            fill(connection)
        if "analyzed" in request.param:
            connection.execute("analyze")
        yield connection
