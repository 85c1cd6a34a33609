"""The standard library's connection, which begins a transaction on its own."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from benchmarks.bare.sqlite import INSERT, ROW
from benchmarks.caller.timing import Noop, SyncConnection
from benchmarks.database import path_of
from benchmarks.noop import NUMBER, TO


@asynccontextmanager
async def caller(url: str, noop: Noop) -> AsyncIterator[SyncConnection]:
    with closing(sqlite3.connect(path_of(url))) as connection:
        yield SyncConnection(
            {
                "bare": lambda: connection.execute(INSERT, ROW),
                "enqueue": lambda: noop.using(connection=connection).enqueue(NUMBER, TO),
            },
            connection.commit,
        )
