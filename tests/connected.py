"""PostgreSQL as others see it: connections that are not Rowcall's, and databases that several tests share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from rowcall import Rowcall
from rowcall.testing.postgres_database import create_database, database_of, drop_database

Connection = psycopg.Connection[tuple[object, ...]]


@contextlib.contextmanager
def connected(url: str, *, autocommit: bool = True) -> Iterator[Connection]:
    """Closed at the end, and nothing committed by that."""
    with contextlib.closing(psycopg.connect(url, autocommit=autocommit)) as connection:
        yield connection


@contextlib.contextmanager
def database_with_tables(server_url: str) -> Iterator[str]:
    """A new database with the tables in it; `empty` makes it as new for each of many tests."""
    url = create_database(server_url)
    with Rowcall(url) as jobs:
        jobs.migrate()
    yield url
    drop_database(server_url, database_of(url))


def empty(url: str) -> None:
    with connected(url) as connection:
        connection.execute("truncate rowcall_job, rowcall_worker restart identity cascade")
