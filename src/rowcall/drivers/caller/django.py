"""Django's connections: `django.db.connection`, `connections["other"]`, or an alias such as `"default"`."""

from __future__ import annotations

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.connection import ConnectionDoesNotExist

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.placeholders import counted
from rowcall.drivers.caller.sqlite3 import as_text
from rowcall.store.statement import Row, Statement


class Django:
    def __init__(self, connection: BaseDatabaseWrapper | str) -> None:
        self._connection = _of_alias(connection) if isinstance(connection, str) else connection
        if self._connection.vendor not in ("sqlite", "postgresql"):
            raise InvalidOption("connection", f"is Django's for {self._connection.vendor}, which is not known here")
        self._connection.ensure_connection()
        if self._connection.in_atomic_block and self._connection.needs_rollback:
            raise InvalidOption("connection", "is in a transaction that has failed already; leave its atomic block")

    @property
    def database(self) -> str:
        return str(self._connection.vendor)

    @property
    def key(self) -> object:
        return self._connection.connection  # Django's own outlives it, and may lead elsewhere afterwards

    def execute(self, statement: Statement[object]) -> list[Row]:
        text = counted(statement.sql)
        with self._connection.cursor() as cursor:
            cursor.execute(text.sql, text.arranged(statement.parameters))
            return [] if cursor.description is None else [as_text(tuple(row)) for row in cursor.fetchall()]


def _of_alias(alias: str) -> BaseDatabaseWrapper:
    try:
        return connections[alias]
    except ConnectionDoesNotExist:
        known = ", ".join(connections)
        named = "this text" if "://" in alias else repr(alias)
        raise InvalidOption("connection", f"{named} is no alias of Django's DATABASES (there are: {known})") from None
