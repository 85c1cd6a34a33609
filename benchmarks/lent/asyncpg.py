"""asyncpg's connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from benchmarks.bare.postgres import INSERT, PAYLOAD
from benchmarks.lent.timing import LentAsync, Noop
from benchmarks.noop import NUMBER, TO


@asynccontextmanager
async def lent(url: str, noop: Noop) -> AsyncIterator[LentAsync]:
    connection = await asyncpg.connect(url)
    yield LentAsync(
        {
            "bare": lambda: connection.execute(INSERT, PAYLOAD),
            "enqueue": lambda: noop.using(connection=connection).aenqueue(NUMBER, TO),
        },
        connection.transaction,
    )
    await connection.close()
