"""Which kind of connection the caller lent. No framework is imported unless one of its objects was passed."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.connection import (
    AsyncKind,
    AsyncLoan,
    Guard,
    IdentityQuery,
    Loan,
    Seen,
    SyncKind,
    SyncLoan,
    unusable,
)
from rowcall.drivers.caller.sqlite3 import Aiosqlite, Sqlite3


class Sync(NamedTuple):
    kind: SyncKind


class Async(NamedTuple):
    kind: AsyncKind


Found = Sync | Async | None
Make = Callable[[Any], Found]

KNOWN = (
    "sqlite3.Connection, aiosqlite.Connection, psycopg.Connection and AsyncConnection, asyncpg.Connection,"
    " SQLAlchemy's Connection, Session, AsyncConnection and AsyncSession, Django's connection or its alias"
)


class Lender:
    """Makes loans of whatever is passed as `connection=`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._seen = Seen()

    def lend(self, connection: object, identity: IdentityQuery | None) -> Loan:
        try:
            found = _found(connection)
        except InvalidOption:
            raise
        except Exception as error:
            explained = self._guard.explained(error)
            raise (unusable(error) if explained is error else explained) from error
        if found is None and any(word in type(connection).__name__.lower() for word in ("engine", "pool", "maker")):
            raise InvalidOption("connection", f"{_named(connection)} only makes connections: lend one of those")
        if found is None:
            raise InvalidOption("connection", f"wants one of {KNOWN}; not {_named(connection)}")
        try:
            leads_to = found.kind.database
        except Exception as error:
            raise unusable(error) from error
        if leads_to != self._guard.database:
            raise InvalidOption("connection", f"leads to {leads_to}, and this queue is in {self._guard.name}")
        if isinstance(found, Async):
            return AsyncLoan(found.kind, self._guard, self._seen, identity)
        return SyncLoan(found.kind, self._guard, self._seen, identity)


def _found(connection: Any) -> Found:
    if isinstance(connection, sqlite3.Connection):
        return Sync(Sqlite3(connection))
    if isinstance(connection, str):
        return _django(connection)
    kind = type(connection)
    make = _known[kind] if kind in _known else _known.setdefault(kind, _maker_of(kind))
    return make(connection) if make is not None else None


def _maker_of(kind: type) -> Make | None:
    packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
    find = next((find for package, find in _FINDERS.items() if package in packages), None)
    return find(kind) if find is not None else None


def _aiosqlite(kind: type) -> Make | None:
    import aiosqlite

    return (lambda connection: Async(Aiosqlite(connection))) if issubclass(kind, aiosqlite.Connection) else None


def _psycopg(kind: type) -> Make | None:
    import psycopg

    from rowcall.drivers.caller.psycopg import Psycopg, PsycopgAsync

    if issubclass(kind, psycopg.Connection):
        return lambda connection: Sync(Psycopg(connection))
    return (lambda connection: Async(PsycopgAsync(connection))) if issubclass(kind, psycopg.AsyncConnection) else None


def _asyncpg(kind: type) -> Make | None:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy

    from rowcall.drivers.caller.asyncpg import Asyncpg

    is_one = issubclass(kind, asyncpg.Connection | PoolConnectionProxy)
    return (lambda connection: Async(Asyncpg(connection))) if is_one else None


def _sqlalchemy(kind: type) -> Make | None:
    import sqlalchemy
    from sqlalchemy import orm

    from rowcall.drivers.caller.sqlalchemy import Alchemy, AlchemyAsync

    if issubclass(kind, sqlalchemy.Connection | orm.Session | orm.scoped_session):
        return lambda connection: Sync(Alchemy(connection))
    if "sqlalchemy.ext.asyncio" in sys.modules:
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

        if issubclass(kind, AsyncConnection | AsyncSession | async_scoped_session):
            return lambda connection: Async(AlchemyAsync(connection))
    return None


def _django(connection: Any) -> Found:
    if "django.db" not in sys.modules:
        raise InvalidOption("connection", "a text is the alias of a Django connection, and Django is not in use here")
    from django.db import connections
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.utils.connection import ConnectionProxy

    from rowcall.drivers.caller.django import Django

    if isinstance(connection, ConnectionProxy):
        connection = connections[connection._alias]
    return Sync(Django(connection)) if isinstance(connection, BaseDatabaseWrapper | str) else None


_FINDERS: dict[str, Callable[[type], Make | None]] = {
    "aiosqlite": _aiosqlite,
    "psycopg": _psycopg,
    "psycopg_pool": _psycopg,
    "asyncpg": _asyncpg,
    "sqlalchemy": _sqlalchemy,
    "django": lambda kind: _django,
}


_known: dict[type, Make | None] = {}


def _named(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__name__}"
