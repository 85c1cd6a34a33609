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
from rowcall.drivers.caller.adapter import AsyncAdapter, SyncAdapter
from rowcall.store.statement import Row, Statement

_UNKNOWN, _FAILED = int(pq.TransactionStatus.UNKNOWN), int(pq.TransactionStatus.INERROR)
_NO_ROWS = int(pq.ExecStatus.COMMAND_OK)
_ABORTED = int(pq.PipelineStatus.ABORTED)
_LOADERS: dict[str, type[Loader]] = {"int8": IntLoader, "int4": IntLoader, "text": TextLoader, "bool": BoolLoader}
_DUMPERS: dict[type, type[Dumper]] = {int: Int8Dumper, float: FloatDumper, str: StrDumper}


def _standard_types() -> AdaptersMap:
    types = AdaptersMap(psycopg.adapters)
    for name, loader in _LOADERS.items():
        types.register_loader(name, loader)
    for kind, dumper in _DUMPERS.items():
        types.register_dumper(kind, dumper)
    return types


_TYPES = _standard_types()


class _Cursor(psycopg.RawCursor[Row]):
    """Ignores how the caller's connection adapts types."""

    @property
    def adapters(self) -> AdaptersMap:
        return _TYPES


class _AsyncCursor(psycopg.AsyncRawCursor[Row]):
    @property
    def adapters(self) -> AdaptersMap:
        return _TYPES


class Psycopg(SyncAdapter[psycopg.Connection[object]]):
    database = "postgresql"

    def __init__(self, connection: psycopg.Connection[object]) -> None:
        _check(connection.pgconn)
        super().__init__(connection)

    def execute(self, statement: Statement[object]) -> list[Row]:
        cursor = _Cursor(self._connection, row_factory=tuple_row)
        cursor.execute(statement.sql, statement.parameters)
        try:
            return cursor.fetchall()  # in a pipeline, this waits for the rows
        except psycopg.ProgrammingError:
            if returned_none(cursor):
                return []
            raise


class PsycopgAsync(AsyncAdapter[psycopg.AsyncConnection[object]]):
    database = "postgresql"

    def __init__(self, connection: psycopg.AsyncConnection[object]) -> None:
        _check(connection.pgconn)
        super().__init__(connection)

    async def execute(self, statement: Statement[object]) -> list[Row]:
        cursor = _AsyncCursor(self._connection, row_factory=tuple_row)
        await cursor.execute(statement.sql, statement.parameters)
        try:
            return await cursor.fetchall()
        except psycopg.ProgrammingError:
            if returned_none(cursor):
                return []
            raise


def returned_none(cursor: _Cursor | _AsyncCursor) -> bool:
    """Return whether the statement succeeded, and is of a kind that has no rows."""
    return cursor.pgresult is not None and cursor.pgresult.status == _NO_ROWS


def adapter(connection: object) -> Psycopg | PsycopgAsync | None:
    if isinstance(connection, psycopg.Connection):
        return Psycopg(connection)
    return PsycopgAsync(connection) if isinstance(connection, psycopg.AsyncConnection) else None


def _check(pgconn: pq.abc.PGconn) -> None:
    status = pgconn.transaction_status  # numbers; connection.info would build an enum for each question
    if status == _UNKNOWN:
        raise InvalidOption("connection", "is closed")
    if status == _FAILED or pgconn.pipeline_status == _ABORTED:
        raise InvalidOption("connection", "is in a transaction that has already failed; roll it back first")
