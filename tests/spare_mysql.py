"""Databases with the tables in them, which tests use one after another: emptying one is quicker than making one."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pymysql

from rowcall import Rowcall
from rowcall.drivers.mysql.connection import SQL_MODE, PymysqlConnection, options_of
from rowcall.testing.deadline import eventually
from rowcall.testing.mysql import MysqlServer

Row = tuple[object, ...]

CLEAN_END_SECONDS = 0.3
TABLES = (
    "select table_name from information_schema.tables where table_schema = database() and table_type = 'BASE TABLE'"
)
TRIGGERS = "select trigger_name from information_schema.triggers where trigger_schema = database() order by 1"
OTHERS = "select 1 from information_schema.processlist where db = database() and id <> connection_id()"
NEXT_ID = re.compile(r" AUTO_INCREMENT=\d+")


def _aware(value: object) -> object:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


class MysqlStore:
    """A database, and an outsider's connection to it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection: pymysql.Connection | None = None

    @property
    def name(self) -> str:
        return str(options_of(self.url)["database"])

    def execute(self, sql: str, *values: object) -> list[Row]:
        """Run one statement, and commit it."""
        if self._connection is None or not self._connection.open:
            self._connection = PymysqlConnection(
                **options_of(self.url), sql_mode=f"{SQL_MODE},ANSI_QUOTES,NO_AUTO_VALUE_ON_ZERO", autocommit=True
            )
        with self._connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return [tuple(map(_aware, row)) for row in cursor.fetchall()]

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None


class SpareMysql(MysqlStore):
    """A database that has the tables."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._tables = [str(name) for (name,) in self.execute(TABLES)]
        self._made = self._texts()
        self._triggers = self.execute(TRIGGERS)
        self._rows = {table: rows for table in self._tables if (rows := self._rows_of(table))}

    def emptied(self) -> bool:
        """Make it as new, or return false: a client is still connected, or more than rows has changed."""
        self.close()  # a test may have changed its session
        try:
            eventually(lambda: not self.execute(OTHERS), within=CLEAN_END_SECONDS)
            texts = self._texts()
            if [NEXT_ID.sub("", text) for text in texts] != [NEXT_ID.sub("", text) for text in self._made]:
                return False
            if self.execute(TRIGGERS) != self._triggers:
                return False
            self.execute("set foreign_key_checks = 0, lock_wait_timeout = 1")
            numbered = [table for table, new, old in zip(self._tables, texts, self._made, strict=True) if new != old]
            for table in {*numbered, *self._filled()}:
                self._empty(table)
        except (AssertionError, pymysql.MySQLError):
            return False
        self.close()
        return True

    def _texts(self) -> list[str]:
        return [str(self.execute(f"show create table {table}")[0][1]) for table in self._tables]

    def _rows_of(self, table: str) -> list[Row]:
        return self.execute(f"select * from {table}")

    def _filled(self) -> Iterator[str]:
        empty = [table for table in self._tables if table not in self._rows]
        asked = " union all ".join(f"(select '{table}' from {table} limit 1)" for table in empty)
        yield from (str(table) for (table,) in self.execute(asked))
        yield from (table for table, rows in self._rows.items() if self._rows_of(table) != rows)

    def _empty(self, table: str) -> None:
        self.execute(f"truncate table {table}")
        for row in self._rows.get(table, []):
            self.execute(f"insert into {table} values ({', '.join(['%s'] * len(row))})", *row)


class SpareMysqlDatabases:
    """Databases of one server. They are dropped at the end, or when they cannot be used again."""

    def __init__(self, server: MysqlServer) -> None:
        self._server = server
        self._spare: list[SpareMysql] = []

    @contextlib.contextmanager
    def database(self) -> Iterator[SpareMysql]:
        """A database that is as new, and that no other test uses."""
        used = self._spare.pop() if self._spare else self._made()
        try:
            yield used
        finally:
            if used.emptied():
                self._spare.append(used)
            else:
                used.close()
                self._server.drop_database(used.name)

    def close(self) -> None:
        for database in self._spare:
            database.close()

    def _made(self) -> SpareMysql:
        url = self._server.create_database()
        with Rowcall(url) as jobs:
            jobs.migrate()
        return SpareMysql(url)
