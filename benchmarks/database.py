"""The tables of a queue, seen from outside Rowcall: one way to ask each database."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import quote, unquote

import psycopg
import pymysql

from rowcall.drivers.mysql.connection import SQL_MODE, options_of
from rowcall.store.mysql.words import EPOCH, adapted

Kind = Literal["sqlite", "postgres", "mysql"]
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
    if is_mysql(url):
        return Mysql(url)
    return Postgres(url) if is_postgres(url) else Sqlite(path_of(url))


def is_postgres(url: str) -> bool:
    return url.startswith("postgresql://")


def is_mysql(url: str) -> bool:
    return url.startswith("mysql://")


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


class Mysql:
    """MariaDB or MySQL. A query that the other databases share is put into their words."""

    def __init__(self, url: str) -> None:
        self._connection = pymysql.connect(**options_of(url), sql_mode=SQL_MODE, autocommit=True)
        self.rows(f"set session {_MOST_RECURSIONS} = 100000000, time_zone = '+00:00'")

    def rows(self, query: str, *parameters: object) -> list[Row]:
        text = adapted(query.replace("?", "%s"))
        assert isinstance(text, str)
        with self._connection.cursor() as cursor:
            cursor.execute(text, parameters or None)
            return list(cursor.fetchall())

    def seconds(self, time: str) -> str:
        return f"timestampdiff(microsecond, {EPOCH}, {time}) * 1e-6"

    def moment(self, milliseconds: int) -> object:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)

    def settle_down(self) -> None:
        """As InnoDB would, given some minutes."""
        self.rows("analyze table rowcall_job, rowcall_ready, rowcall_claim")

    def close(self) -> None:
        self._connection.close()


_MOST_RECURSIONS = "/*M! max_recursive_iterations */ /*!80003 cte_max_recursion_depth */"
