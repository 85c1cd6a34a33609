"""asyncpg's `Connection`, and the one that its pool hands out."""

from __future__ import annotations

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.connection import Family
from rowcall.drivers.caller.short import AsyncWay, Parameters, Written, async_ways
from rowcall.store.statement import Row, Statement


def _key(connection: asyncpg.Connection) -> object:
    """What a pool hands out cannot be referred to weakly; what is in it can."""
    return getattr(connection, "_con", connection)


async def _ainsert(connection: asyncpg.Connection, sql: str, parameters: Parameters) -> Written | None:
    if connection.is_closed():
        return None
    job_id, at_ms = tuple(await connection.fetchrow(sql, *parameters))  # whatever class of records it has
    return int(job_id), int(at_ms)


for _kind in (asyncpg.Connection, PoolConnectionProxy):
    async_ways[_kind] = AsyncWay(_key, _ainsert)


class Asyncpg:
    database: Family = "postgresql"

    def __init__(self, connection: asyncpg.Connection) -> None:
        if connection.is_closed():
            raise InvalidOption("connection", "is closed")
        self._connection = connection

    @property
    def key(self) -> object:
        return _key(self._connection)

    async def ready(self) -> None:
        pass

    async def execute(self, statement: Statement[object]) -> list[Row]:
        # every column is a number, a text or a boolean: codecs for JSON and times have no say
        return [tuple(record) for record in await self._connection.fetch(statement.sql, *statement.parameters)]
