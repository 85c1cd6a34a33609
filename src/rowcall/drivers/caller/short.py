"""The shortest ways for what is done most: one plain job, on a connection that was looked at before.

Each gives the id of the row and, where the database says it, its time in milliseconds; None where the long way has to
be gone, which also knows what to say of a connection that cannot be used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from rowcall.domain.errors import RowcallError
from rowcall.drivers.caller.connection import Guard, Loan, Seen, patience_on
from rowcall.drivers.caller.sqlite3 import bound_files
from rowcall.drivers.finishing import finish
from rowcall.store.statement import Parameter

Written = tuple[int, int | None]
Parameters = tuple[Parameter, ...]


Insert = Callable[[Any, str, Parameters], Written | None]


class AsyncWay(NamedTuple):
    """`key` is what a connection is known by once it was looked at."""

    key: Callable[[Any], object]
    insert: Callable[[Any, str, Parameters], Awaitable[Written | None]]


# how a row is inserted on connections of exactly that class
ways: dict[type, Insert] = {}
async_ways: dict[type, AsyncWay] = {}


class Short:
    def __init__(self, guard: Guard, seen: Seen) -> None:
        self._guard = guard
        self._seen = seen
        self._patience_seconds = patience_on(guard)

    def insert_by_file(self, connection: object, sql: str, parameters: Parameters) -> Written | None:
        """On a connection of the standard library, whose last id is ours as no other thread can have written since."""
        if bound_files.get(id(connection)) not in self._seen.files:
            return None
        try:
            return connection.execute(sql, parameters).lastrowid, None  # type: ignore[attr-defined]
        except Exception as error:
            raise self._explained(error) from error

    def insert(self, connection: object, sql: str, parameters: Parameters) -> Written | None:
        insert = ways.get(type(connection))
        if insert is None or connection not in self._seen:
            return None
        try:
            return insert(connection, sql, parameters)
        except RowcallError:
            raise
        except Exception as error:
            raise self._explained(error) from error

    async def ainsert(self, connection: object, sql: str, parameters: Parameters) -> Written | None:
        way = async_ways.get(type(connection))
        if way is None or way.key(connection) not in self._seen:
            return None
        try:
            return await finish(way.insert(connection, sql, parameters), patience_seconds=self._patience_seconds)
        except RowcallError:
            raise
        except Exception as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> Exception:
        return Loan(self._guard, self._seen, None).explained(error)
