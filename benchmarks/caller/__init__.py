"""Connections as applications have them: on each, a bare INSERT into the ceiling's table next to an `enqueue`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from benchmarks.caller import alchemy, asyncpg, psycopg, sqlite3
from benchmarks.caller.timing import CallerConnection, Noop
from benchmarks.database import Kind

Open = Callable[[str, Noop], AbstractAsyncContextManager[CallerConnection]]

CALLER_CONNECTIONS: Mapping[Kind, Mapping[str, Open]] = {
    "sqlite": {"sqlite3": sqlite3.caller, "sqlalchemy": alchemy.caller},
    "postgres": {"psycopg": psycopg.caller, "asyncpg": asyncpg.caller, "sqlalchemy": alchemy.caller},
}
