"""psycopg's `Connection` and `AsyncConnection`: in a transaction or not, in a pipeline or not, with any row factory."""

from __future__ import annotations

import psycopg
from psycopg import pq
from psycopg.abc import Dumper, Loader
from psycopg.adapt import AdaptersMap
from psycopg.rows import tuple_row
from psycopg.types.bool import BoolLoader
from psycopg.types.numeric import FloatDumper, Int8Dumper, IntLoader
from psycopg.types.string import StrDumper, TextLoader

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.connection import Family
from rowcall.store.statement import Row, Statement

_UNKNOWN, _FAILED = int(pq.TransactionStatus.UNKNOWN), int(pq.TransactionStatus.INERROR)
_ABORTED = int(pq.PipelineStatus.ABORTED)
_LOADERS: dict[str, type[Loader]] = {"int8": IntLoader, "int4": IntLoader, "text": TextLoader, "bool": BoolLoader}
_DUMPERS: dict[type, type[Dumper]] = {int: Int8Dumper, float: FloatDumper, str: StrDumper}


def _our_types() -> AdaptersMap:
    types = AdaptersMap(psycopg.adapters)
    for loader_of, loader in _LOADERS.items():
        types.register_loader(loader_of, loader)
    for dumper_of, dumper in _DUMPERS.items():
        types.register_dumper(dumper_of, dumper)
    return types


_OUR_TYPES = _our_types()


class _Cursor(psycopg.RawCursor[Row]):
    """What the caller's connection makes of its types is the caller's affair."""

    @property
    def adapters(self) -> AdaptersMap:
        return _OUR_TYPES


class _AsyncCursor(psycopg.AsyncRawCursor[Row]):
    @property
    def adapters(self) -> AdaptersMap:
        return _OUR_TYPES


class Psycopg:
    database: Family = "postgresql"

    def __init__(self, connection: psycopg.Connection[object]) -> None:
        _check(connection)
        self._connection = connection

    @property
    def key(self) -> object:
        return self._connection

    def execute(self, statement: Statement[object]) -> list[Row]:
        cursor = _Cursor(self._connection, row_factory=tuple_row)
        cursor.execute(statement.sql, statement.parameters)
        return cursor.fetchall()  # every statement that is run here gives rows; in a pipeline this waits for them


class PsycopgAsync:
    database: Family = "postgresql"

    def __init__(self, connection: psycopg.AsyncConnection[object]) -> None:
        _check(connection)
        self._connection = connection

    @property
    def key(self) -> object:
        return self._connection

    async def ready(self) -> None:
        pass

    async def execute(self, statement: Statement[object]) -> list[Row]:
        cursor = _AsyncCursor(self._connection, row_factory=tuple_row)
        await cursor.execute(statement.sql, statement.parameters)
        return await cursor.fetchall()


def _check(connection: psycopg.Connection[object] | psycopg.AsyncConnection[object]) -> None:
    pgconn = connection.pgconn  # its numbers: the enums of connection.info are made anew for each question
    status = pgconn.transaction_status
    if status == _UNKNOWN:
        raise InvalidOption("connection", "is closed")
    if status == _FAILED or pgconn.pipeline_status == _ABORTED:
        raise InvalidOption("connection", "is in a transaction that has failed already; roll it back first")
