"""Whether a lent connection leads to the queue's own database, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator

from rowcall.drivers.lent.loan import Family
from rowcall.drivers.sqlite_errors import explained
from rowcall.errors import InvalidOption
from rowcall.store.statement import Plan, Statement, fetch, no_row


class SqliteGuard:
    database: Family = "sqlite"

    def __init__(self, path: str) -> None:
        self._path = self.name = path

    def check(self) -> Plan[None]:
        rows = yield from fetch(Statement("pragma database_list", (), no_row))
        file = next((str(row[2] or "") for row in rows if row[1] == "main"), "")
        if not file or not os.path.exists(self._path) or not os.path.samefile(file, self._path):
            raise InvalidOption(
                "connection", f"is open on {file or 'a database in memory'}, and this queue is in {self._path}"
            )

    def explained(self, error: Exception) -> Exception:
        for cause in causes(error):
            if isinstance(cause, sqlite3.ProgrammingError):
                return InvalidOption("connection", f"cannot be used here: {cause}")
            if isinstance(cause, sqlite3.Error):
                return explained(cause, self._path)
        return error


class PostgresGuard:
    """`whereabouts` tells the server, the database and the table that a connection sees; `own` those of the queue."""

    database: Family = "postgresql"

    def __init__(
        self,
        name: str,
        whereabouts: Statement[tuple[int, int, int]],
        own: Callable[[], tuple[int, int, int]],
        explained: Callable[[Exception], Exception],
    ) -> None:
        self.name = name
        self._whereabouts = whereabouts
        self._own = own
        self._explained = explained
        self._known: tuple[int, int, int] | None = None

    def check(self) -> Plan[None]:
        (found,) = yield from fetch(self._whereabouts)
        if found == self._known:
            return
        self._known = self._own()  # asked again: a server that was restarted has changed
        if found != self._known:
            where = "does not see the tables" if not found[2] else "leads to another database"
            raise InvalidOption("connection", f"{where}; this queue is in {self.name}. Check its URL and search_path")

    def explained(self, error: Exception) -> Exception:
        for cause in causes(error):
            found = self._explained(cause)
            if found is not cause:
                return found
        return error


def causes(error: Exception) -> Iterator[Exception]:
    """The error, and what frameworks have wrapped in it."""
    known: list[BaseException | None] = [None]
    cause: BaseException | None = error
    while isinstance(cause, Exception) and cause not in known:
        yield cause
        known.append(cause)
        cause = getattr(cause, "orig", None) or cause.__cause__
