"""psycopg's connections: as they come, in autocommit mode, with row factories, in a pipeline, out of a pool."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from tests.drivers.caller.callers.base import Caller, Rows, Undo


@dataclass
class Something:
    """What rows are made into by the caller's own `class_row`."""

    id: int = 0


class Psycopg(Caller):
    def __init__(self, database: str, **options: Any) -> None:
        super().__init__(database)
        self._options = options
        self._block = ExitStack()

    @property
    def connection(self) -> psycopg.Connection[Any]:
        return self._connection

    async def open(self) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(self.database, **self._options)

    async def close(self) -> None:
        self._connection.close()

    async def begin(self) -> None:
        if self._connection.autocommit:
            self._block.enter_context(self._connection.transaction())

    async def commit(self) -> None:
        if self._connection.autocommit:
            self._block.close()
        else:
            self._connection.commit()

    async def rollback(self) -> None:
        if self._connection.autocommit:
            with contextlib.suppress(Undo):
                self._block.__exit__(Undo, Undo(), None)
        else:
            self._connection.rollback()

    async def execute(self, sql: str) -> Rows:
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(sql.encode())
            return cursor.fetchall() if sql.startswith("select") else []  # in a pipeline it is not known yet

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self._connection.transaction():
            yield


class PsycopgInPipeline(Psycopg):
    async def open(self) -> None:
        await super().open()
        self._pipeline = ExitStack()
        self._pipeline.enter_context(self._connection.pipeline())

    async def close(self) -> None:
        self._connection.rollback()
        self._pipeline.close()
        await super().close()


class PsycopgOfPool(Psycopg):
    async def open(self) -> None:
        self._pool = ConnectionPool(self.database, min_size=1, max_size=1, open=True)
        self._connection = self._pool.getconn()

    async def close(self) -> None:
        self._pool.putconn(self._connection)
        self._pool.close()


class PsycopgAsync(Caller):
    is_async = True

    def __init__(self, database: str, **options: Any) -> None:
        super().__init__(database)
        self._options = options
        self._block = AsyncExitStack()

    @property
    def connection(self) -> psycopg.AsyncConnection[Any]:
        return self._connection

    async def open(self) -> None:
        self._connection: psycopg.AsyncConnection[Any] = await psycopg.AsyncConnection.connect(
            self.database, **self._options
        )

    async def close(self) -> None:
        await self._connection.close()

    async def begin(self) -> None:
        if self._connection.autocommit:
            await self._block.enter_async_context(self._connection.transaction())

    async def commit(self) -> None:
        if self._connection.autocommit:
            await self._block.aclose()
        else:
            await self._connection.commit()

    async def rollback(self) -> None:
        if self._connection.autocommit:
            with contextlib.suppress(Undo):
                await self._block.__aexit__(Undo, Undo(), None)
        else:
            await self._connection.rollback()

    async def execute(self, sql: str) -> Rows:
        async with self._connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(sql.encode())
            return await cursor.fetchall() if sql.startswith("select") else []

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self._connection.transaction():
            yield


class PsycopgAsyncInPipeline(PsycopgAsync):
    async def open(self) -> None:
        await super().open()
        self._pipeline = AsyncExitStack()
        await self._pipeline.enter_async_context(self._connection.pipeline())

    async def close(self) -> None:
        await self._connection.rollback()
        await self._pipeline.aclose()
        await super().close()


class PsycopgAsyncOfPool(PsycopgAsync):
    async def open(self) -> None:
        self._pool = AsyncConnectionPool(self.database, min_size=1, max_size=1, open=False)
        await self._pool.open()
        self._connection = await self._pool.getconn()

    async def close(self) -> None:
        await self._pool.putconn(self._connection)
        await self._pool.close()
