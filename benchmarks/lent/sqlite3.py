"""The standard library's connection, which begins a transaction by itself."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from benchmarks.bare.sqlite import INSERT, ROW
from benchmarks.database import path_of
from benchmarks.lent.timing import LentSync, Noop
from benchmarks.noop import NUMBER, TO


@asynccontextmanager
async def lent(url: str, noop: Noop) -> AsyncIterator[LentSync]:
    with closing(sqlite3.connect(path_of(url))) as connection:
        yield LentSync(
            {
                "bare": lambda: connection.execute(INSERT, ROW),
                "enqueue": lambda: noop.using(connection=connection).enqueue(NUMBER, TO),
            },
            connection.commit,
        )
