"""asyncpg's `Connection`, and the one that its pool hands out."""

from __future__ import annotations

import asyncpg

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.connection import Family
from rowcall.store.statement import Row, Statement


class Asyncpg:
    database: Family = "postgresql"

    def __init__(self, connection: asyncpg.Connection) -> None:
        if connection.is_closed():
            raise InvalidOption("connection", "is closed")
        self._connection = connection

    @property
    def key(self) -> object:
        # what a pool hands out cannot be referred to weakly; what is in it can
        return getattr(self._connection, "_con", self._connection)

    async def ready(self) -> None:
        pass

    async def execute(self, statement: Statement[object]) -> list[Row]:
        # every column is a number, a text or a boolean: codecs for JSON and times have no say
        return [tuple(record) for record in await self._connection.fetch(statement.sql, *statement.parameters)]
