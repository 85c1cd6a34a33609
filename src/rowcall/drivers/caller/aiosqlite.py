"""`aiosqlite.Connection`: a `sqlite3.Connection` in its own thread."""

from __future__ import annotations

import sqlite3

import aiosqlite

from rowcall.drivers.caller.adapter import AsyncAdapter
from rowcall.drivers.caller.sqlite3 import as_text
from rowcall.store.statement import Row, Statement


class Aiosqlite(AsyncAdapter[aiosqlite.Connection]):
    database = "sqlite"

    async def execute(self, statement: Statement[object]) -> list[Row]:
        if self._connection.row_factory in (None, sqlite3.Row):
            found = await self._connection.execute_fetchall(statement.sql, statement.parameters)
            return [as_text(tuple(row)) for row in found]
        cursor = await self._connection.cursor()
        cursor.row_factory = None
        try:
            await cursor.execute(statement.sql, statement.parameters)
            return [as_text(tuple(row)) for row in await cursor.fetchall()]
        finally:
            await cursor.close()


def adapter(connection: object) -> Aiosqlite | None:
    return Aiosqlite(connection) if isinstance(connection, aiosqlite.Connection) else None
