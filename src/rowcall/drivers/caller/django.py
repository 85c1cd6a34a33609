"""Django's connections: `django.db.connection`, `connections["other"]`, or an alias such as `"default"`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionDoesNotExist, ConnectionProxy

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.adapter import SyncAdapter
from rowcall.drivers.caller.mysql import check_read, standard
from rowcall.drivers.caller.placeholders import in_turn
from rowcall.drivers.caller.sqlite3 import as_text
from rowcall.drivers.mysql.placeholders import arranged
from rowcall.drivers.uncancellable import finish
from rowcall.store.statement import Row, Statement, as_is

T = TypeVar("T")

# for each of Django's vendors: how its cursors take a statement, and what is made of their rows
_VENDORS = {"sqlite": (in_turn, as_text), "postgresql": (in_turn, as_is), "mysql": (arranged, standard)}


class Django(SyncAdapter[BaseDatabaseWrapper]):
    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        super().__init__(connection)
        if connection.vendor not in _VENDORS:
            raise InvalidOption("connection", f"is Django's for {connection.vendor}, which Rowcall does not support")
        self.database = connection.vendor
        if connection.connection is None:
            connection.ensure_connection()
        check_read(connection.connection)
        if connection.in_atomic_block and connection.needs_rollback:
            raise InvalidOption("connection", "is in a transaction that has already failed; leave its atomic block")

    @property
    def key(self) -> object:
        return self._connection.connection  # Django's wrapper outlives it, and may lead elsewhere later

    async def in_its_thread(self, function: Callable[[], T]) -> T:
        """Call it in Django's thread for sync code, where the `atomic` blocks around async code are."""

        if self._connection._thread_ident == threading.get_ident():  # of the thread that runs the event loop
            return await super().in_its_thread(function)

        def call() -> T:
            if self._connection._thread_ident != threading.get_ident():
                raise InvalidOption(
                    "connection", "belongs to another thread; enqueue in a function that sync_to_async calls"
                )
            return function()

        result: T = await finish(sync_to_async(call, thread_sensitive=True)())
        return result

    def execute(self, statement: Statement[object]) -> list[Row]:
        written, of_row = _VENDORS[self.database]
        with self._connection.cursor() as cursor:
            cursor.execute(*written(statement.sql, statement.parameters))
            return [] if cursor.description is None else [of_row(tuple(row)) for row in cursor.fetchall()]


def adapter(connection: object) -> Django | None:
    if isinstance(connection, str):
        return Django(_connection_of(connection))
    if isinstance(connection, ConnectionProxy):
        return Django(connections[connection._alias])
    return Django(connection) if isinstance(connection, BaseDatabaseWrapper) else None


def _connection_of(alias: str) -> BaseDatabaseWrapper:
    try:
        return connections[alias]
    except ConnectionDoesNotExist:
        named = "this string" if "://" in alias else repr(alias)  # a URL may contain a password
        known = ", ".join(connections)
        raise InvalidOption("connection", f"{named} is not an alias in Django's DATABASES ({known})") from None
