"""Django's connections: the object, the proxy, another one than the default, and an alias."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote, urlsplit

import django
import pymysql
from django.conf import settings
from django.db import connection, connections, transaction

from tests.drivers.caller.callers.base import Caller, Rows, Undo
from tests.drivers.caller.callers.mysql_callers import HAS_MYSQLCLIENT

if not HAS_MYSQLCLIENT:
    pymysql.install_as_MySQLdb()
if not settings.configured:
    settings.configure()
    django.setup()


def databases(database: str) -> dict[str, dict[str, Any]]:
    return {"default": _database(database), "other": _database(database)}


def _database(database: str) -> dict[str, Any]:
    url = urlsplit(database)
    if not url.netloc:
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": database}
    return {
        "ENGINE": f"django.db.backends.{url.scheme}",
        "NAME": url.path.lstrip("/"),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": url.hostname,
        "PORT": url.port,
    }


class Django(Caller):
    """`how` it is passed: wrapper, proxy or alias."""

    def __init__(self, database: str, how: str, alias: str = "default") -> None:
        super().__init__(database)
        self._how = how
        self._alias = alias
        self._block: Any = None

    @property
    def connection(self) -> Any:
        return {"wrapper": self.wrapper, "proxy": connection, "alias": self._alias}[self._how]

    async def open(self) -> None:
        self._before = connections.settings
        connections.settings = connections.configure_settings(databases(self.database))
        self._forget()
        self.wrapper = connections[self._alias]

    async def close(self) -> None:
        self.wrapper.close()
        connections.settings = self._before
        self._forget()

    def _forget(self) -> None:
        for alias in ("default", "other"):
            if hasattr(connections._connections, alias):
                connections[alias].close()
                del connections[alias]

    async def begin(self) -> None:
        self._block = transaction.atomic(using=self._alias)
        self._block.__enter__()

    async def commit(self) -> None:
        self._block.__exit__(None, None, None)

    async def rollback(self) -> None:
        self._block.__exit__(Undo, Undo(), None)

    async def execute(self, sql: str) -> Rows:
        with self.wrapper.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with transaction.atomic(using=self._alias):
            yield
