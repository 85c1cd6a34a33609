"""Connections of PyMySQL, mysqlclient, aiomysql and asyncmy: as they come, in autocommit mode, with other cursors."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import AsyncIterator
from typing import Any

from rowcall.drivers.mysql.connection import options_of
from tests.drivers.caller.callers.base import Caller, Rows

HAS_MYSQLCLIENT = importlib.util.find_spec("MySQLdb") is not None
"""It needs a compiler; `.ci/run` installs it where it can."""
SAVEPOINT, UNDO, RELEASE = "savepoint inside", "rollback to inside", "release savepoint inside"


class Mysql(Caller):
    """`options` are the driver's own; `cursor` names the class of cursors that the connection makes."""

    def __init__(self, database: str, package: str, cursor: str = "", **options: Any) -> None:
        super().__init__(database)
        self._package = package
        self._cursor = cursor
        self._options = options

    @property
    def connection(self) -> Any:
        return self._connection

    def _arguments(self) -> dict[str, Any]:
        given = {name: value for name, value in options_of(self.database).items() if value is not None}
        others = {"cursorclass": self.cursor_class(self._cursor)} if self._cursor else {}
        return {"charset": "utf8mb4", **given, **others, **self._options}

    def cursor_class(self, name: str) -> type:
        kind: type = getattr(importlib.import_module(f"{self._package}.cursors"), name)
        return kind

    async def open(self) -> None:
        self._connection: Any = importlib.import_module(self._package).connect(**self._arguments())

    async def close(self) -> None:
        self._connection.close()

    async def begin(self) -> None:
        if self._options.get("autocommit"):
            await self.execute("begin")

    async def commit(self) -> None:
        self._connection.commit()

    async def rollback(self) -> None:
        self._connection.rollback()

    async def execute(self, sql: str) -> Rows:
        with self._connection.cursor(self.cursor_class("Cursor")) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        await self.execute(SAVEPOINT)
        try:
            yield
        except BaseException:
            await self.execute(UNDO)
            raise
        finally:
            await self.execute(RELEASE)


class MysqlAsync(Mysql):
    is_async = True

    def _arguments(self) -> dict[str, Any]:
        arguments = super()._arguments()
        arguments["db"] = arguments.pop("database")
        if "cursorclass" in arguments:
            arguments["cursor_cls" if self._package == "asyncmy" else "cursorclass"] = arguments.pop("cursorclass")
        return arguments

    async def open(self) -> None:
        self._connection = await importlib.import_module(self._package).connect(**self._arguments())

    async def close(self) -> None:
        self._connection.close()

    async def commit(self) -> None:
        await self._connection.commit()

    async def rollback(self) -> None:
        await self._connection.rollback()

    async def execute(self, sql: str) -> Rows:
        async with self._connection.cursor(self.cursor_class("Cursor")) as cursor:
            await cursor.execute(sql)
            return list(await cursor.fetchall()) if cursor.description else []
