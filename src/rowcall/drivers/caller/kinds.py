"""Find the adapter for a caller's connection. No framework is imported unless one of its objects was passed."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from typing import Any

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.adapter import Adapter
from rowcall.drivers.caller.sqlite3 import Sqlite3

Find = Callable[[Any], Adapter[Any] | None]

KNOWN = (
    "sqlite3.Connection, aiosqlite.Connection, psycopg.Connection and AsyncConnection, asyncpg.Connection,"
    " the connections of PyMySQL, mysqlclient, aiomysql and asyncmy,"
    " SQLAlchemy's Connection, Session, AsyncConnection and AsyncSession, Django's connection or its alias"
)

_finds: dict[type, Find] = {}


def adapter_for(connection: object) -> Adapter[Any] | None:
    if isinstance(connection, sqlite3.Connection):
        return Sqlite3(connection)
    kind = type(connection)
    if kind not in _finds:
        _finds[kind] = _find_for(kind)
    return _finds[kind](connection)


def _find_for(kind: type) -> Find:
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    if "aiosqlite" in packages:
        from rowcall.drivers.caller import aiosqlite

        return aiosqlite.adapter
    if not packages.isdisjoint({"psycopg", "psycopg_pool"}):
        from rowcall.drivers.caller import psycopg

        return psycopg.adapter
    if "asyncpg" in packages:
        from rowcall.drivers.caller import asyncpg

        return asyncpg.adapter
    if not packages.isdisjoint({"pymysql", "MySQLdb", "aiomysql", "asyncmy"}):
        from rowcall.drivers.caller import mysql

        return mysql.adapter
    if "sqlalchemy" in packages:
        from rowcall.drivers.caller import sqlalchemy

        return sqlalchemy.adapter
    if "django" in packages or issubclass(kind, str):
        if "django.db" not in sys.modules:
            raise InvalidOption("connection", "a string must be the alias of a Django connection; Django is not loaded")
        from rowcall.drivers.caller import django

        return django.adapter
    return lambda connection: None
