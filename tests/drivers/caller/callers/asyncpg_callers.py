"""asyncpg's connections: as they come, out of a pool, and with codecs of the caller's own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from tests.drivers.caller.callers.base import Caller, Rows


class Asyncpg(Caller):
    is_async = True

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self._transaction: Any = None

    @property
    def connection(self) -> object:
        return self._connection

    async def open(self) -> None:
        self._connection: Any = await asyncpg.connect(self.database)

    async def close(self) -> None:
        await self._connection.close()

    async def begin(self) -> None:
        self._transaction = self._connection.transaction()
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()

    async def execute(self, sql: str) -> Rows:
        return [tuple(record) for record in await self._connection.fetch(sql)]

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        async with self._connection.transaction():
            yield


class AsyncpgOfPool(Asyncpg):
    async def open(self) -> None:
        self._pool = await asyncpg.create_pool(self.database, min_size=1, max_size=1)
        self._connection = await self._pool.acquire()

    async def close(self) -> None:
        await self._pool.release(self._connection)
        await self._pool.close()


class AsyncpgWithCodecs(Asyncpg):
    """As applications set them: documents as Python values, times as texts."""

    async def open(self) -> None:
        await super().open()
        for name in ("json", "jsonb"):
            await self._connection.set_type_codec(name, schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        for name in ("timestamptz", "float8", "numeric", "uuid"):
            await self._connection.set_type_codec(name, schema="pg_catalog", encoder=str, decoder=str)
