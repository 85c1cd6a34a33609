"""SQLAlchemy's connections and sessions on each driver, and SQLModel's sessions, which are among them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from tests.drivers.caller.callers.base import Caller, Rows

Handle = Callable[[Any], Any]
"""What is made of an engine: a connection, or a session of some kind."""


def url_for(database: str, driver: str) -> sqlalchemy.URL:
    if driver in ("pysqlite", "aiosqlite"):
        return sqlalchemy.URL.create(f"sqlite+{driver}", database=database)
    dialect = "mysql" if database.startswith("mysql:") else "postgresql"
    return sqlalchemy.make_url(database).set(drivername=f"{dialect}+{driver}")


class Alchemy(Caller):
    def __init__(self, database: str, driver: str, handle: Handle, **options: Any) -> None:
        super().__init__(database)
        self._driver = driver
        self._handle = handle
        self._options = options

    @property
    def connection(self) -> Any:
        return self._given

    async def open(self) -> None:
        self.engine = sqlalchemy.create_engine(
            url_for(self.database, self._driver), poolclass=NullPool, **self._options
        )
        self._given = self._handle(self.engine)

    async def close(self) -> None:
        self._given.close()
        self.engine.dispose()

    async def begin(self) -> None:
        self._given.begin()

    async def commit(self) -> None:
        self._given.commit()

    async def rollback(self) -> None:
        self._given.rollback()

    async def execute(self, sql: str) -> Rows:
        result = execute_of(self._given)(sqlalchemy.text(sql))
        return [tuple(row) for row in result] if result.returns_rows else []

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self._given.begin_nested():
            yield


class AlchemyAsync(Caller):
    is_async = True

    def __init__(self, database: str, driver: str, handle: Handle, **options: Any) -> None:
        super().__init__(database)
        self._driver = driver
        self._handle = handle
        self._options = options

    @property
    def connection(self) -> Any:
        return self._given

    async def open(self) -> None:
        self.engine = create_async_engine(url_for(self.database, self._driver), poolclass=NullPool, **self._options)
        self._given = self._handle(self.engine)
        if hasattr(self._given, "start"):
            await self._given.start()

    async def close(self) -> None:
        await self._given.close()
        await self.engine.dispose()

    async def begin(self) -> None:
        await self._given.begin()

    async def commit(self) -> None:
        await self._given.commit()

    async def rollback(self) -> None:
        await self._given.rollback()

    async def execute(self, sql: str) -> Rows:
        result = await execute_of(self._given)(sqlalchemy.text(sql))
        return [tuple(row) for row in result] if result.returns_rows else []

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self._given.begin_nested():
            yield


def execute_of(connection: Any) -> Any:
    """SQLModel warns about every other method than its own."""
    return getattr(connection, "exec", None) or connection.execute
