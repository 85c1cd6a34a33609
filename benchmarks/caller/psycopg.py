"""psycopg's connection with its own cursor, which begins a transaction on its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from benchmarks.bare.postgres import INSERT, PAYLOAD
from benchmarks.caller.timing import Noop, SyncConnection
from benchmarks.noop import NUMBER, TO

_INSERT = INSERT.replace("$1", "%s").encode()


@asynccontextmanager
async def caller(url: str, noop: Noop) -> AsyncIterator[SyncConnection]:
    with psycopg.connect(url) as connection:
        yield SyncConnection(
            {
                "bare": lambda: connection.execute(_INSERT, (PAYLOAD,)),
                "enqueue": lambda: noop.using(connection=connection).enqueue(NUMBER, TO),
            },
            connection.commit,
        )
