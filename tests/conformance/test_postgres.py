"""The conformance kit on a PostgreSQL server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import psycopg
import pytest

from rowcall.testing.postgres_database import Databases, database_of
from tests.conformance.store import Row, Store
from tests.conformance.suite import *  # noqa: F403
from tests.spare_databases import SpareDatabases


class PostgresStore:
    def __init__(self, url: str) -> None:
        self.url = url
        self._connection: psycopg.Connection[Row] | None = None

    def execute(self, sql: str) -> list[Row]:
        if self._connection is None:
            self._connection = psycopg.connect(self.url, autocommit=True, prepare_threshold=None)
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description is not None else []

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


NewStore = Callable[[], Store]


@pytest.fixture
def new_store(databases: Databases) -> Iterator[NewStore]:
    made: list[PostgresStore] = []

    def make() -> Store:
        made.append(PostgresStore(databases.create()))
        return made[-1]

    yield make
    for store in made:
        store.close()
        databases.drop(database_of(store.url))


@pytest.fixture  # type: ignore[no-redef]
def new_migrated_store(spare_databases: SpareDatabases) -> Iterator[NewStore]:
    with contextlib.ExitStack() as opened:
        yield lambda: opened.enter_context(spare_databases.database())
