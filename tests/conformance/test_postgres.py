"""The conformance kit on a PostgreSQL server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import psycopg
import pytest

from rowcall.testing.conformance.store import Row, Store
from rowcall.testing.conformance.suite import *  # noqa: F403
from rowcall.testing.postgres_database import Databases, database_of


class PostgresStore:
    def __init__(self, url: str) -> None:
        self.url = url

    def execute(self, sql: str) -> list[Row]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description is not None else []


NewStore = Callable[[], Store]


@pytest.fixture
def new_store(databases: Databases) -> Iterator[NewStore]:
    with stores(databases, "template0") as make:
        yield make


@pytest.fixture  # type: ignore[no-redef]
def new_migrated_store(databases: Databases, postgres_template: str) -> Iterator[NewStore]:
    with stores(databases, postgres_template) as make:
        yield make


@contextlib.contextmanager
def stores(databases: Databases, template: str) -> Iterator[NewStore]:
    urls: list[str] = []

    def make() -> Store:
        urls.append(databases.create(template=template))
        return PostgresStore(urls[-1])

    yield make
    for url in urls:
        databases.drop(database_of(url))
