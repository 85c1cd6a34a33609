"""Running a plan on a psycopg connection of the caller's, inside whatever transaction the caller has."""

from __future__ import annotations

from typing import TypeVar

import psycopg
from psycopg import pq
from psycopg.abc import Dumper, Loader
from psycopg.rows import tuple_row
from psycopg.types.bool import BoolLoader
from psycopg.types.numeric import FloatDumper, Int8Dumper, IntLoader
from psycopg.types.string import StrDumper, TextLoader

from rowcall.drivers.postgres_errors import explained
from rowcall.drivers.runner import run
from rowcall.errors import InvalidOption
from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")


class LentConnections:
    """We never begin, commit or roll back here, and rely on none of the connection's settings."""

    def run(self, connection: object, plan: Plan[T]) -> T:
        if not isinstance(connection, psycopg.Connection):
            raise InvalidOption(
                "connection",
                f"wants a psycopg.Connection, not {type(connection).__module__}.{type(connection).__name__}",
            )
        if connection.closed:
            raise InvalidOption("connection", "is closed")
        if connection.info.transaction_status == pq.TransactionStatus.INERROR:
            raise InvalidOption("connection", "is in a transaction that has failed already; roll it back first")
        try:
            return run(plan, lambda statement: _execute(connection, statement))
        except psycopg.InterfaceError as error:
            raise InvalidOption("connection", f"cannot be used here: {error}") from error
        except psycopg.Error as error:
            raise explained(error, "the lent connection") from error


def _execute(connection: psycopg.Connection[object], statement: Statement[object]) -> list[Row]:
    cursor = psycopg.RawCursor(connection, row_factory=tuple_row)
    for loader_of, loader in _LOADERS.items():
        cursor.adapters.register_loader(loader_of, loader)
    for dumper_of, dumper in _DUMPERS.items():
        cursor.adapters.register_dumper(dumper_of, dumper)
    try:
        cursor.execute(statement.sql, statement.parameters)
        if connection.pgconn.pipeline_status == pq.PipelineStatus.OFF and cursor.description is None:
            return []
        return cursor.fetchall()  # in a pipeline only this tells whether there are rows: every lent statement has some
    finally:
        cursor.close()


# what the caller's connection makes of its types is the caller's affair
_LOADERS: dict[str, type[Loader]] = {"int8": IntLoader, "int4": IntLoader, "text": TextLoader, "bool": BoolLoader}
_DUMPERS: dict[type, type[Dumper]] = {int: Int8Dumper, float: FloatDumper, str: StrDumper}
