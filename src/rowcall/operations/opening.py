"""Which dialect and which driver a configuration asks for. Nothing is connected yet."""

from __future__ import annotations

from rowcall.domain.config import Config
from rowcall.domain.errors import InvalidOption
from rowcall.drivers.database import Database
from rowcall.drivers.sqlite.database import SqliteDatabase
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.enqueue import Member, alike, enqueue, enqueue_alike
from rowcall.store.new_job import Inserted
from rowcall.store.sqlite.dialect import SqliteDialect

Store = tuple[Dialect, Database[Member, Inserted]]


def open_store(config: Config) -> Store:
    return _sqlite(config) if config.server is None else _postgres(config)


def _sqlite(config: Config) -> Store:
    dialect = SqliteDialect(config.table_prefix)
    return dialect, SqliteDatabase(
        config, lambda member: enqueue(dialect, member), lambda members: enqueue_alike(dialect, members), alike
    )


def _postgres(config: Config) -> Store:
    try:
        from rowcall.drivers.postgres.database import PostgresDatabase
    except ModuleNotFoundError as error:
        if error.name not in ("psycopg", "psycopg_pool"):
            raise
        raise InvalidOption("url", f"PostgreSQL needs {error.name}: pip install 'rowcall[postgres]'") from None
    from rowcall.store.postgres.dialect import PostgresDialect

    dialect = PostgresDialect(config.table_prefix)
    return dialect, PostgresDatabase(
        config,
        lambda member: enqueue(dialect, member),
        lambda members: enqueue_alike(dialect, members),
        alike,
        dialect.notification(),
    )
