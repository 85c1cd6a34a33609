"""sqlite3 in each of its modes, and aiosqlite."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from typing import Any

import aiosqlite

from tests.drivers.caller.callers.base import Caller, Rows

SAVEPOINT, UNDO, RELEASE = "savepoint inside", "rollback to inside", "release inside"


class Sqlite3(Caller):
    """`options` are sqlite3.connect's own: an isolation level, or an `autocommit` mode since Python 3.12."""

    def __init__(self, database: str, **options: Any) -> None:
        super().__init__(database)
        self._options = options
        self._begins = options.get("isolation_level", "") is None or options.get("autocommit") is True

    @property
    def connection(self) -> sqlite3.Connection:
        return self._connection

    async def open(self) -> None:
        self._connection: sqlite3.Connection = sqlite3.connect(self.database, **self._options)

    async def close(self) -> None:
        self._connection.close()

    async def begin(self) -> None:
        if self._begins:
            self._connection.execute("begin")

    async def commit(self) -> None:
        if self._options.get("autocommit") is True:  # commit() does nothing there
            self._connection.execute("commit")
        else:
            self._connection.commit()

    async def rollback(self) -> None:
        if self._options.get("autocommit") is True:
            self._connection.execute("rollback")
        else:
            self._connection.rollback()

    async def execute(self, sql: str) -> Rows:
        return self._connection.execute(sql).fetchall()

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        self._connection.execute(SAVEPOINT)
        try:
            yield
        except BaseException:
            self._connection.execute(UNDO)
            raise
        finally:
            self._connection.execute(RELEASE)


class Aiosqlite(Caller):
    is_async = True

    def __init__(self, database: str, **options: Any) -> None:
        super().__init__(database)
        self._options = options

    @property
    def connection(self) -> aiosqlite.Connection:
        return self._connection

    async def open(self) -> None:
        self._connection = await aiosqlite.connect(self.database, **self._options)

    async def close(self) -> None:
        await self._connection.close()

    async def begin(self) -> None:
        if self._options.get("isolation_level", "") is None:
            await self._connection.execute("begin")

    async def commit(self) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def execute(self, sql: str) -> Rows:
        async with self._connection.execute(sql) as cursor:
            return [tuple(row) for row in await cursor.fetchall()]

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        await self._connection.execute(SAVEPOINT)
        try:
            yield
        except BaseException:
            await self._connection.execute(UNDO)
            raise
        finally:
            await self._connection.execute(RELEASE)
