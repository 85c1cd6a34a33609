"""The tables of a queue, seen from outside Rowcall: one way to ask either database."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import quote, unquote

import psycopg

Kind = Literal["sqlite", "postgres"]
Row = tuple[Any, ...]


class Database(Protocol):
    """Open a connection in autocommit mode."""

    def rows(self, query: str, *parameters: object) -> list[Row]:
        """Return the rows of a query; parameters are written as question marks."""

    def seconds(self, time: str) -> str:
        """The expression for a time, in seconds since 1970."""

    def moment(self, milliseconds: int) -> object:
        """The value to give for a time."""

    def settle_down(self) -> None:
        """Do what a database that is left alone would have done on its own."""

    def close(self) -> None: ...


def connect(url: str) -> Database:
    return Postgres(url) if is_postgres(url) else Sqlite(path_of(url))


def is_postgres(url: str) -> bool:
    return url.startswith("postgresql://")


def url_of(path: Path) -> str:
    """
    >>> url_of(Path("/tmp/50 %.db")), path_of(url_of(Path("/tmp/50 %.db")))
    ('sqlite:////tmp/50%20%25.db', PosixPath('/tmp/50 %.db'))
    """
    return f"sqlite:///{quote(str(path))}"


def path_of(url: str) -> Path:
    return Path(unquote(url.removeprefix("sqlite:///")))


class Sqlite:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)

    def rows(self, query: str, *parameters: object) -> list[Row]:
        return self._connection.execute(query, parameters).fetchall()

    def seconds(self, time: str) -> str:
        return f"{time} / 1000.0"

    def moment(self, milliseconds: int) -> object:
        return milliseconds

    def settle_down(self) -> None:
        pass

    def close(self) -> None:
        self._connection.close()


class Postgres:
    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def rows(self, query: str, *parameters: object) -> list[Row]:
        cursor = self._connection.execute(query.replace("?", "%s").encode(), parameters or None)
        return cursor.fetchall() if cursor.description else []

    def seconds(self, time: str) -> str:
        return f"extract(epoch from {time})::float8"

    def moment(self, milliseconds: int) -> object:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)

    def settle_down(self) -> None:
        """As autovacuum and the checkpointer would, given some minutes."""
        self.rows("vacuum analyze")
        self.rows("checkpoint")

    def close(self) -> None:
        self._connection.close()
