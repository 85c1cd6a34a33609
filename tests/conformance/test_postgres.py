"""The conformance kit on a PostgreSQL server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import psycopg
import pytest

from rowcall.testing.postgres_database import Databases, database_of
from tests.conformance.store import Row, Store
from tests.conformance.suite import *  # noqa: F403
from tests.conformance.test_postgres_user import UserStore, databases_for_user, user
from tests.spare_databases import SpareDatabases

__all__ = ["databases_for_user", "user"]

AS_USER = {
    "TestBatches",
    "TestByHand",
    "TestEvents",
    "TestFairness",
    "TestGraphs",
    "TestKeys",
    "TestLimits",
    "TestLostWorkers",
    "TestOrderedJobs",
    "TestOutcomes",
    "TestPausing",
    "TestQuestions",
    "TestResults",
    "TestRetention",
    "TestSchedules",
    "TestSignals",
    "TestSteps",
}
"""They run as the user of an app, who has exactly the documented privileges; the others as the owner of the tables."""


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
def new_migrated_store(request: pytest.FixtureRequest, spare_databases: SpareDatabases) -> Iterator[NewStore]:
    with contextlib.ExitStack() as opened:
        if request.cls.__name__ not in AS_USER:
            yield lambda: opened.enter_context(spare_databases.database())
            return
        spare: SpareDatabases = request.getfixturevalue("databases_for_user")
        name = request.getfixturevalue("user")
        yield lambda: UserStore(opened.enter_context(spare.database()), name)
