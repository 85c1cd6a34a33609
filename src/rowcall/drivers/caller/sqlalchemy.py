"""SQLAlchemy's connections and sessions, sync and async; SQLModel's sessions are among them.

Always through `exec_driver_sql`: the driver's connection, taken before SQLAlchemy's first statement, is not in the
transaction yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import sqlalchemy
from sqlalchemy import orm

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.placeholders import counted
from rowcall.drivers.caller.sqlite3 import as_text
from rowcall.store.statement import Parameter, Row, Statement

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

Session = orm.Session | orm.scoped_session[orm.Session]

_NUMBERED = {"pysqlite", "aiosqlite", "asyncpg"}
_COUNTED = {"psycopg", "psycopg_async", "psycopg2"}


class Alchemy:
    """A session begins its transaction with the first statement, and not before: it may be the caller's to begin."""

    def __init__(self, connection: sqlalchemy.Connection | Session) -> None:
        self._lent = connection
        self._connection = connection if isinstance(connection, sqlalchemy.Connection) else None
        if self._connection is not None:
            _check(self._connection)

    @property
    def database(self) -> str:
        bind = self._lent if isinstance(self._lent, sqlalchemy.Connection) else self._lent.get_bind()
        return bind.dialect.name

    @property
    def key(self) -> object:
        return self._resolved().engine

    def execute(self, statement: Statement[object]) -> list[Row]:
        connection = self._resolved()
        return _rows(connection.exec_driver_sql(*_arranged(statement, connection.dialect.driver)))

    def _resolved(self) -> sqlalchemy.Connection:
        if self._connection is None:
            assert not isinstance(self._lent, sqlalchemy.Connection)
            self._connection = self._lent.connection()
            _check(self._connection)
        return self._connection


class AlchemyAsync:
    def __init__(self, connection: AsyncConnection | AsyncSession | async_scoped_session[AsyncSession]) -> None:
        self._lent = connection
        self._connection: AsyncConnection | None = None

    @property
    def database(self) -> str:
        from sqlalchemy.ext.asyncio import AsyncConnection

        bind = self._lent if isinstance(self._lent, AsyncConnection) else self._lent.get_bind()
        return bind.dialect.name

    @property
    def key(self) -> object:
        return self._connection.sync_engine if self._connection is not None else None

    async def ready(self) -> None:
        if self._connection is None:
            self._connection = await self._resolved()

    async def execute(self, statement: Statement[object]) -> list[Row]:
        assert self._connection is not None
        driver = self._connection.dialect.driver
        return _rows(await self._connection.exec_driver_sql(*_arranged(statement, driver)))

    async def _resolved(self) -> AsyncConnection:
        from sqlalchemy.ext.asyncio import AsyncConnection

        found = self._lent if isinstance(self._lent, AsyncConnection) else await self._lent.connection()
        if found.sync_connection is not None:
            _check(found.sync_connection)
        return found


def _check(connection: sqlalchemy.Connection) -> None:
    if connection.closed:
        raise InvalidOption("connection", "is closed")
    driver = connection.dialect.driver
    if driver not in _NUMBERED | _COUNTED:
        raise InvalidOption("connection", f"goes through {connection.dialect.name}+{driver}, which is not known here")


def _arranged(statement: Statement[object], driver: str) -> tuple[str, tuple[Parameter, ...]] | tuple[str]:
    if driver in _NUMBERED:
        return (statement.sql, statement.parameters) if statement.parameters else (statement.sql,)
    text = counted(statement.sql)
    return text.sql, text.arranged(statement.parameters)


def _rows(result: sqlalchemy.CursorResult[tuple[object, ...]]) -> list[Row]:
    if not result.returns_rows:
        return []
    return [as_text(cast("Row", tuple(row))) for row in result.fetchall()]
