"""asyncpg's `Connection`, and the proxy that its pool returns."""

from __future__ import annotations

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.adapter import AsyncAdapter
from rowcall.store.statement import Row, Statement


class Asyncpg(AsyncAdapter[asyncpg.Connection | PoolConnectionProxy]):
    database = "postgresql"

    def __init__(self, connection: asyncpg.Connection | PoolConnectionProxy) -> None:
        if connection.is_closed():
            raise InvalidOption("connection", "is closed")
        super().__init__(connection)

    @property
    def key(self) -> object:
        # a pool's proxy takes no weak reference; the connection in it does
        return getattr(self._connection, "_con", self._connection)

    async def execute(self, statement: Statement[object]) -> list[Row]:
        # every column is a number, a text or a boolean, so that codecs for JSON and times do not matter
        return [tuple(record) for record in await self._connection.fetch(statement.sql, *statement.parameters)]


def adapter(connection: object) -> Asyncpg | None:
    return Asyncpg(connection) if isinstance(connection, asyncpg.Connection | PoolConnectionProxy) else None
