"""Connections as applications have them: on each, a bare INSERT into the ceiling's table beside an `enqueue`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from benchmarks.database import Kind
from benchmarks.lent import alchemy, asyncpg, psycopg, sqlite3
from benchmarks.lent.timing import Lent, Noop

Open = Callable[[str, Noop], AbstractAsyncContextManager[Lent]]

LENT: Mapping[Kind, Mapping[str, Open]] = {
    "sqlite": {"sqlite3": sqlite3.lent, "sqlalchemy": alchemy.lent},
    "postgres": {"psycopg": psycopg.lent, "asyncpg": asyncpg.lent, "sqlalchemy": alchemy.lent},
}
