"""The conformance kit on a PostgreSQL server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import psycopg
import pytest

from rowcall.testing.conformance.store import Row, Store
from rowcall.testing.conformance.suite import *  # noqa: F403
from rowcall.testing.postgres_database import create_database, database_of, drop_database


class PostgresStore:
    def __init__(self, url: str) -> None:
        self.url = url

    def execute(self, sql: str) -> list[Row]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description is not None else []


NewStore = Callable[[], Store]


@pytest.fixture
def new_store(postgres_server_url: str) -> Iterator[NewStore]:
    with stores(postgres_server_url, "template0") as make:
        yield make


@pytest.fixture  # type: ignore[no-redef]
def new_migrated_store(postgres_server_url: str, postgres_template: str) -> Iterator[NewStore]:
    with stores(postgres_server_url, postgres_template) as make:
        yield make


@contextlib.contextmanager
def stores(server_url: str, template: str) -> Iterator[NewStore]:
    urls: list[str] = []

    def make() -> Store:
        urls.append(create_database(server_url, template=template))
        return PostgresStore(urls[-1])

    yield make
    for url in urls:
        drop_database(server_url, database_of(url))
