"""Connections of PyMySQL and mysqlclient, and of asyncmy and aiomysql, with any class of cursors."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any, Protocol

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.adapter import HALF_READ, AsyncAdapter, SyncAdapter
from rowcall.drivers.mysql.placeholders import arranged
from rowcall.store.statement import Row, Statement

SYNC_PACKAGES, ASYNC_PACKAGES = ("pymysql", "MySQLdb"), ("aiomysql", "asyncmy")


class Cursors(Protocol):
    """What all these connections are used for."""

    def cursor(self, kind: type, /) -> Any: ...


class Mysql(SyncAdapter[Cursors]):
    database = "mysql"

    def __init__(self, connection: Cursors, package: str) -> None:
        if not getattr(connection, "open", True):
            raise InvalidOption("connection", "is closed")
        check_read(connection)
        super().__init__(connection)
        self._plain = _plain_cursor(package)

    def execute(self, statement: Statement[object]) -> list[Row]:
        with self._connection.cursor(self._plain) as cursor:
            cursor.execute(*arranged(statement.sql, statement.parameters))
            return [standard(row) for row in cursor.fetchall()] if cursor.description else []


class MysqlAsync(AsyncAdapter[Cursors]):
    database = "mysql"

    def __init__(self, connection: Cursors, package: str) -> None:
        if getattr(connection, "closed", False) or not getattr(connection, "connected", True):
            raise InvalidOption("connection", "is closed")
        check_read(connection)
        super().__init__(connection)
        self._plain = _plain_cursor(package)

    async def execute(self, statement: Statement[object]) -> list[Row]:
        async with self._connection.cursor(self._plain) as cursor:
            await cursor.execute(*arranged(statement.sql, statement.parameters))
            return [standard(row) for row in await cursor.fetchall()] if cursor.description else []


def adapter(connection: object) -> Mysql | MysqlAsync | None:
    for base in type(connection).__mro__:
        package = base.__module__.partition(".")[0]
        if base.__name__ == "Connection" and package in SYNC_PACKAGES:
            return Mysql(connection, package)  # type: ignore[arg-type]
        if base.__name__ == "Connection" and package in ASYNC_PACKAGES:
            return MysqlAsync(connection, package)  # type: ignore[arg-type]
    return None


def _plain_cursor(package: str) -> type:
    """Return the class of cursors whose rows are tuples, whatever the connection's own makes."""
    __import__(f"{package}.cursors")
    kind: type = sys.modules[f"{package}.cursors"].Cursor
    return kind


def check_read(connection: object) -> None:
    """Refuse a connection with rows that were not read yet: another statement would drop them."""
    if getattr(getattr(connection, "_result", None), "unbuffered_active", False):
        raise InvalidOption("connection", HALF_READ)


def standard(row: Row) -> Row:
    """Return numbers as numbers, whatever the connection makes of decimals."""
    if any(isinstance(value, Decimal) for value in row):
        return tuple(_number(value) if isinstance(value, Decimal) else value for value in row)
    return row


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)
