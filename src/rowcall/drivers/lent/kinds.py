"""Which kind of connection the caller lent. No framework is imported unless one of its objects was passed."""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING, Any

from rowcall.drivers.lent.loan import Guard, Loan, Seen
from rowcall.drivers.lent.of_sqlite3 import Aiosqlite, Sqlite3
from rowcall.errors import InvalidOption

if TYPE_CHECKING:
    from rowcall.drivers.lent.loan import AsyncKind, SyncKind

KNOWN = (
    "sqlite3.Connection, aiosqlite.Connection, psycopg.Connection and AsyncConnection, asyncpg.Connection,"
    " SQLAlchemy's Connection, Session, AsyncConnection and AsyncSession, Django's connection or its alias"
)


class Lender:
    """Makes loans of whatever is passed as `connection=`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._seen = Seen()

    def lend(self, connection: object) -> Loan:
        try:
            found = _found(connection)
        except InvalidOption:
            raise
        except Exception as error:
            explained = self._guard.explained(error)
            if explained is error:
                raise
            raise explained from error
        if found is None and any(word in type(connection).__name__.lower() for word in ("engine", "pool", "maker")):
            raise InvalidOption("connection", f"{_named(connection)} only makes connections: lend one of those")
        if found is None:
            raise InvalidOption("connection", f"wants one of {KNOWN}; not {_named(connection)}")
        kind, is_async = found
        if kind.database != self._guard.database:
            raise InvalidOption("connection", f"leads to {kind.database}, and this queue is in {self._guard.name}")
        return Loan(kind, self._guard, self._seen, is_async=is_async)


def _found(connection: Any) -> tuple[SyncKind | AsyncKind, bool] | None:
    if isinstance(connection, sqlite3.Connection):
        return Sqlite3(connection), False
    if isinstance(connection, str):
        return _django(connection)
    packages = {base.__module__.partition(".")[0] for base in type(connection).__mro__}
    for package, find in _FINDERS.items():
        if package in packages:
            return find(connection)
    return None


def _aiosqlite(connection: Any) -> tuple[AsyncKind, bool] | None:
    import aiosqlite

    return (Aiosqlite(connection), True) if isinstance(connection, aiosqlite.Connection) else None


def _psycopg(connection: Any) -> tuple[SyncKind | AsyncKind, bool] | None:
    import psycopg

    from rowcall.drivers.lent.of_psycopg import Psycopg, PsycopgAsync

    if isinstance(connection, psycopg.Connection):
        return Psycopg(connection), False
    return (PsycopgAsync(connection), True) if isinstance(connection, psycopg.AsyncConnection) else None


def _asyncpg(connection: Any) -> tuple[AsyncKind, bool] | None:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy

    from rowcall.drivers.lent.of_asyncpg import Asyncpg

    is_one = isinstance(connection, asyncpg.Connection | PoolConnectionProxy)
    return (Asyncpg(connection), True) if is_one else None


def _sqlalchemy(connection: Any) -> tuple[SyncKind | AsyncKind, bool] | None:
    import sqlalchemy
    from sqlalchemy import orm

    from rowcall.drivers.lent.of_sqlalchemy import Alchemy, AlchemyAsync

    if isinstance(connection, sqlalchemy.Connection | orm.Session | orm.scoped_session):
        return Alchemy(connection), False
    if "sqlalchemy.ext.asyncio" in sys.modules:
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

        if isinstance(connection, AsyncConnection | AsyncSession | async_scoped_session):
            return AlchemyAsync(connection), True
    return None


def _django(connection: Any) -> tuple[SyncKind, bool] | None:
    if "django.db" not in sys.modules:
        raise InvalidOption("connection", "a text is the alias of a Django connection, and Django is not in use here")
    from django.db import connections
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.utils.connection import ConnectionProxy

    from rowcall.drivers.lent.of_django import Django

    if isinstance(connection, ConnectionProxy):
        connection = connections[connection._alias]
    return (Django(connection), False) if isinstance(connection, BaseDatabaseWrapper | str) else None


_FINDERS = {
    "aiosqlite": _aiosqlite,
    "psycopg": _psycopg,
    "psycopg_pool": _psycopg,
    "asyncpg": _asyncpg,
    "sqlalchemy": _sqlalchemy,
    "django": _django,
}


def _named(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__name__}"
