"""SQLAlchemy Core: on pysqlite for a file, on psycopg for a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import Connection, MetaData, Table, create_engine, func, insert

from benchmarks.caller.timing import Noop, SyncConnection
from benchmarks.database import is_postgres, path_of
from benchmarks.noop import ARGUMENTS, NUMBER, TO

_CLOCK = func.clock_timestamp()
_VALUES: dict[str, dict[str, object]] = {
    "sqlite": {"payload": json.dumps(ARGUMENTS), "run_at": 0, "created_at": 0},
    "postgresql": {"payload": ARGUMENTS, "run_at": _CLOCK, "created_at": _CLOCK},
}


@asynccontextmanager
async def caller(url: str, noop: Noop) -> AsyncIterator[SyncConnection]:
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://") if is_postgres(url) else f"sqlite:///{path_of(url)}"
    )
    with engine.connect() as connection:
        table = Table("bare_job", MetaData(), autoload_with=connection)
        connection.rollback()
        yield SyncConnection(
            {
                "bare": lambda: _insert(connection, table),
                "enqueue": lambda: noop.using(connection=connection).enqueue(NUMBER, TO),
            },
            connection.commit,
        )
    engine.dispose()


def _insert(connection: Connection, table: Table) -> None:
    values = _VALUES[connection.dialect.name]
    connection.execute(insert(table).values(type="noop", status="pending", **values))
