"""asyncpg's connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from benchmarks.bare.postgres import INSERT, PAYLOAD
from benchmarks.caller.timing import AsyncConnection, Noop
from benchmarks.noop import NUMBER, TO


@asynccontextmanager
async def caller(url: str, noop: Noop) -> AsyncIterator[AsyncConnection]:
    connection = await asyncpg.connect(url)
    yield AsyncConnection(
        {
            "bare": lambda: connection.execute(INSERT, PAYLOAD),
            "enqueue": lambda: noop.using(connection=connection).aenqueue(NUMBER, TO),
        },
        connection.transaction,
    )
    await connection.close()
