"""Read and change a queue's database with plain SQL. Times are milliseconds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import psycopg
import pymysql

from rowcall.drivers.mysql.connection import SQL_MODE, options_of
from rowcall.store.mysql.words import adapted, concatenated, milliseconds_of, time_of


class JobRow(NamedTuple):
    id: int
    type: str
    queue: str
    status: str
    priority: int
    attempt: int
    error_code: str | None
    error_detail: str | None
    run_at: int
    created_at: int
    claimed_at: int | None
    started_at: int | None
    finished_at: int | None
    heartbeat_at: int | None
    turn: int | None
    held: str | None


class AttemptRow(NamedTuple):
    job_id: int
    attempt: int
    status: str
    claimed_at: int
    started_at: int | None
    finished_at: int | None
    next_run_at: int | None
    error_code: str | None


class PlainDatabase(Protocol):
    url: str

    def ask(self, sql: str) -> list[tuple[Any, ...]]: ...
    def insert(self, **columns: str | int | None) -> int:
        """Insert a job, and return its id."""

    def time(self, column: str) -> str:
        """Return SQL for the column in milliseconds."""

    def close(self) -> None: ...


class PlainSqlite:
    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        self._connection.execute("pragma synchronous = off")
        self._connection.execute("pragma foreign_keys = on")

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def insert(self, **columns: str | int | None) -> int:
        marks = ", ".join("?" for _ in columns)
        statement = f"insert into rowcall_job ({', '.join(columns)}) values ({marks})"
        job_id = self._connection.execute(statement, list(columns.values())).lastrowid
        assert job_id is not None
        return job_id

    def time(self, column: str) -> str:
        return column

    def close(self) -> None:
        self._connection.close()


class PlainPostgres:
    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description is not None else []

    def insert(self, **columns: str | int | None) -> int:
        marks = ", ".join("to_timestamp(%s / 1000.0)" if name.endswith("_at") else "%s" for name in columns)
        statement = f"insert into rowcall_job ({', '.join(columns)}) values ({marks}) returning id"
        row = self._connection.execute(statement.encode(), list(columns.values())).fetchone()
        assert row is not None
        return int(row[0])

    def time(self, column: str) -> str:
        return f"round(extract(epoch from {column}) * 1000)::bigint"

    def close(self) -> None:
        self._connection.close()


class PlainMysql:
    """MariaDB or MySQL. A query that the other databases share is put into their words."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = pymysql.connect(**options_of(url), sql_mode=SQL_MODE, autocommit=True)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        text = adapted(sql)
        assert isinstance(text, str), f"{sql} takes several statements"
        with self._connection.cursor() as cursor:
            cursor.execute(concatenated(text))
            return list(cursor.fetchall())

    def insert(self, **columns: str | int | None) -> int:
        marks = ", ".join(time_of("%s") if name.endswith("_at") else "%s" for name in columns)
        names = ", ".join(f"`{name}`" for name in columns)
        with self._connection.cursor() as cursor:
            cursor.execute(f"insert into rowcall_job ({names}) values ({marks})", list(columns.values()))
            return int(cursor.lastrowid)

    def time(self, column: str) -> str:
        return milliseconds_of(column)

    def close(self) -> None:
        self._connection.close()


def plain_database(url: str) -> PlainDatabase:
    kinds: dict[str, Callable[[str], PlainDatabase]] = {
        "sqlite": PlainSqlite,
        "postgresql": PlainPostgres,
        "mysql": PlainMysql,
    }
    return kinds[url.partition(":")[0]](url)


def jobs_of(database: PlainDatabase) -> list[JobRow]:
    return [
        JobRow(*row) for row in database.ask(f"select {_shown(database, JobRow._fields)} from rowcall_jobs order by id")
    ]


def attempts_of(database: PlainDatabase) -> list[AttemptRow]:
    """Return the attempts that have ended and were not pruned."""
    shown = _shown(database, AttemptRow._fields)
    rows = database.ask(f"select {shown} from rowcall_attempts where status <> 'running' and finished_at is not null")
    return [AttemptRow(*row) for row in rows]


def _shown(database: PlainDatabase, columns: Iterable[str]) -> str:
    return ", ".join(database.time(column) if column.endswith("_at") else column for column in columns)
