"""psycopg's connection with its own cursor, which begins a transaction by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from benchmarks.bare.postgres import INSERT, PAYLOAD
from benchmarks.lent.timing import LentSync, Noop
from benchmarks.noop import NUMBER, TO

_INSERT = INSERT.replace("$1", "%s").encode()


@asynccontextmanager
async def lent(url: str, noop: Noop) -> AsyncIterator[LentSync]:
    with psycopg.connect(url) as connection:
        yield LentSync(
            {
                "bare": lambda: connection.execute(_INSERT, (PAYLOAD,)),
                "enqueue": lambda: noop.using(connection=connection).enqueue(NUMBER, TO),
            },
            connection.commit,
        )
