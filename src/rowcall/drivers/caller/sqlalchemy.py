"""SQLAlchemy's connections and sessions, sync and async; SQLModel's sessions are among them.

Every statement goes through `exec_driver_sql`: before SQLAlchemy's first statement, the driver's connection is not in
the transaction yet.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, cast

import sqlalchemy
from sqlalchemy import orm

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.adapter import AsyncAdapter, SyncAdapter
from rowcall.drivers.caller.mysql import check_read, standard
from rowcall.drivers.caller.placeholders import in_turn
from rowcall.drivers.caller.sqlite3 import as_text
from rowcall.drivers.mysql.placeholders import arranged
from rowcall.store.statement import Parameter, Row, Statement

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

Session = orm.Session | orm.scoped_session[orm.Session]

_DIALECTS = {"mariadb": "mysql"}  # SQLAlchemy's name for the same dialect, by the scheme of its URL
_NUMBERED = {"pysqlite", "aiosqlite", "asyncpg"}
_COUNTED = {"psycopg", "psycopg_async", "psycopg2"}
_WITH_LISTS = {"pymysql", "mysqldb", "aiomysql", "asyncmy"}


class Alchemy(SyncAdapter[sqlalchemy.Connection | None]):
    """A session begins its transaction with the first statement, never before: the caller may still begin it."""

    def __init__(self, source: sqlalchemy.Connection | Session) -> None:
        super().__init__(source if isinstance(source, sqlalchemy.Connection) else None)
        self._source = source
        if self._connection is not None:
            _check(self._connection)
        self.database = _database(source if isinstance(source, sqlalchemy.Connection) else source.get_bind())

    @property
    def key(self) -> object:
        return self._resolved().engine

    def execute(self, statement: Statement[object]) -> list[Row]:
        connection = self._resolved()
        return _rows(connection.exec_driver_sql(*_arranged(statement, connection.dialect.driver)))

    def _resolved(self) -> sqlalchemy.Connection:
        if self._connection is None:
            assert not isinstance(self._source, sqlalchemy.Connection)
            self._connection = self._source.connection()
            _check(self._connection)
        return self._connection


class AlchemyAsync(AsyncAdapter["AsyncConnection | None"]):
    def __init__(self, source: AsyncConnection | AsyncSession | async_scoped_session[AsyncSession]) -> None:
        from sqlalchemy.ext.asyncio import AsyncConnection

        super().__init__(source if isinstance(source, AsyncConnection) else None)
        self._session = cast("AsyncSession", source)
        self.database = _database(self._connection or self._session.get_bind())

    @property
    def key(self) -> object:
        return self._connection.sync_engine if self._connection is not None else None

    async def ready(self) -> None:
        if self._connection is None:
            self._connection = await self._session.connection()
        if self._connection.sync_connection is not None:
            _check(self._connection.sync_connection)

    async def execute(self, statement: Statement[object]) -> list[Row]:
        assert self._connection is not None
        driver = self._connection.dialect.driver
        return _rows(await self._connection.exec_driver_sql(*_arranged(statement, driver)))


def adapter(connection: object) -> Alchemy | AlchemyAsync | None:
    if isinstance(connection, sqlalchemy.Connection | orm.Session | orm.scoped_session):
        return Alchemy(connection)
    if "sqlalchemy.ext.asyncio" in sys.modules:
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

        if isinstance(connection, AsyncConnection | AsyncSession | async_scoped_session):
            return AlchemyAsync(connection)
    return None


def _database(source: sqlalchemy.Engine | sqlalchemy.Connection | AsyncConnection) -> str:
    return _DIALECTS.get(source.dialect.name, source.dialect.name)


def _check(connection: sqlalchemy.Connection) -> None:
    if connection.closed:
        raise InvalidOption("connection", "is closed")
    driver = connection.dialect.driver
    if driver in _WITH_LISTS:
        check_read(connection.connection.driver_connection)
    elif driver not in _NUMBERED | _COUNTED:
        name = f"{connection.dialect.name}+{driver}"
        raise InvalidOption("connection", f"uses the driver {name}, which Rowcall does not support")


def _arranged(statement: Statement[object], driver: str) -> tuple[str, tuple[Parameter, ...]] | tuple[str]:
    if driver in _NUMBERED:
        return (statement.sql, statement.parameters) if statement.parameters else (statement.sql,)
    if driver in _COUNTED:
        return in_turn(statement.sql, statement.parameters)
    sql, values = arranged(statement.sql, statement.parameters)
    return sql, tuple(values)


def _rows(result: sqlalchemy.CursorResult[tuple[object, ...]]) -> list[Row]:
    if not result.returns_rows:
        return []
    return [as_text(standard(cast("Row", tuple(row)))) for row in result.fetchall()]
