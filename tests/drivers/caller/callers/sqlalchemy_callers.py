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


def url_for(place: str, driver: str) -> sqlalchemy.URL:
    if driver in ("pysqlite", "aiosqlite"):
        return sqlalchemy.URL.create(f"sqlite+{driver}", database=place)
    return sqlalchemy.make_url(place).set(drivername=f"postgresql+{driver}")


class Alchemy(Caller):
    def __init__(self, place: str, driver: str, handle: Handle, **options: Any) -> None:
        super().__init__(place)
        self._driver = driver
        self._handle = handle
        self._options = options

    @property
    def lent(self) -> Any:
        return self._lent

    async def open(self) -> None:
        self.engine = sqlalchemy.create_engine(url_for(self.place, self._driver), poolclass=NullPool, **self._options)
        self._lent = self._handle(self.engine)

    async def close(self) -> None:
        self._lent.close()
        self.engine.dispose()

    async def begin(self) -> None:
        self._lent.begin()

    async def commit(self) -> None:
        self._lent.commit()

    async def rollback(self) -> None:
        self._lent.rollback()

    async def execute(self, sql: str) -> Rows:
        result = execute_of(self._lent)(sqlalchemy.text(sql))
        return [tuple(row) for row in result] if result.returns_rows else []

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self._lent.begin_nested():
            yield


class AlchemyAsync(Caller):
    is_async = True

    def __init__(self, place: str, driver: str, handle: Handle, **options: Any) -> None:
        super().__init__(place)
        self._driver = driver
        self._handle = handle
        self._options = options

    @property
    def lent(self) -> Any:
        return self._lent

    async def open(self) -> None:
        self.engine = create_async_engine(url_for(self.place, self._driver), poolclass=NullPool, **self._options)
        self._lent = self._handle(self.engine)
        if hasattr(self._lent, "start"):
            await self._lent.start()

    async def close(self) -> None:
        await self._lent.close()
        await self.engine.dispose()

    async def begin(self) -> None:
        await self._lent.begin()

    async def commit(self) -> None:
        await self._lent.commit()

    async def rollback(self) -> None:
        await self._lent.rollback()

    async def execute(self, sql: str) -> Rows:
        result = await execute_of(self._lent)(sqlalchemy.text(sql))
        return [tuple(row) for row in result] if result.returns_rows else []

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self._lent.begin_nested():
            yield


def execute_of(lent: Any) -> Any:
    """SQLModel warns those who do not call its own."""
    return getattr(lent, "exec", None) or lent.execute
