"""Check that a caller's connection leads to the queue's own database, and explain its errors."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from typing import Protocol

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.sqlite.errors import explained
from rowcall.store.statement import Plan, Row, Statement, as_is, fetch

IdentityQuery = Statement[Row]
"""Asks a connection which database it leads to."""


class QueueDatabase(Protocol):
    """The database that a queue lives in."""

    database: str
    name: str

    @property
    def is_known(self) -> bool: ...

    def learn(self, query: IdentityQuery | None) -> None:
        """Ask the queue's own connection for its identity; this may take a round trip."""

    def check(self, query: IdentityQuery | None) -> Plan[str | None]:
        """Return what is wrong with where the connection leads, or None. The caller's transaction survives."""

    def note_written(self) -> None:
        """A plan has run. The caller's transaction may be committed soon, or the plan was its own transaction."""

    def explained(self, error: Exception) -> Exception:
        """Return Rowcall's error for a driver's error; return any other error unchanged."""


class SqliteQueueDatabase:
    database = "sqlite"
    is_known = True

    def __init__(self, path: str) -> None:
        self._path = self.name = path

    def learn(self, query: IdentityQuery | None) -> None:
        pass

    def check(self, query: IdentityQuery | None) -> Plan[str | None]:
        rows = yield from fetch(Statement("pragma database_list", (), as_is))
        file = next((str(row[2] or "") for row in rows if row[1] == "main"), "")
        if file and os.path.exists(self._path) and os.path.samefile(file, self._path):
            return None
        return f"is open on {file or 'a database in memory'}, but this queue is in {self._path}"

    def note_written(self) -> None:
        pass

    def explained(self, error: Exception) -> Exception:
        for cause in _causes(error):
            if isinstance(cause, sqlite3.ProgrammingError):
                return InvalidOption("connection", f"cannot be used: {cause}")
            if isinstance(cause, sqlite3.Error):
                return explained(cause, self._path)
        return error


class ServerQueueDatabase:
    """`ask` runs a query on the queue's own connection; `explain` is for errors of any driver of the database.

    `odd` says what is wrong with a connection that returns other values than it was asked for.
    """

    def __init__(
        self,
        database: str,
        name: str,
        ask: Callable[[IdentityQuery], Row],
        explain: Callable[[Exception], Exception],
        odd: str = "has its own type codecs for text, int4 or float8; Rowcall needs the standard ones",
        note_written: Callable[[], None] = lambda: None,
    ) -> None:
        self.database = database
        self.name = name
        self._odd = odd
        self.note_written = note_written
        self._ask = ask
        self._explain = explain
        self._identity: Row | None = None

    @property
    def is_known(self) -> bool:
        return self._identity is not None

    def learn(self, query: IdentityQuery | None) -> None:
        """Ask again: a server that was restarted has another identity."""
        assert query is not None
        self._identity = self._ask(query)[:3]

    def check(self, query: IdentityQuery | None) -> Plan[str | None]:
        assert query is not None
        (row,) = yield from fetch(query)
        text, number, fraction = row[3:]
        # a float only has to be sendable: a driver that reads it as text also sends it as text
        if (text, number, str(fraction)) != ("text", 7, "0.5"):
            return self._odd
        if row[:3] == self._identity:
            return None
        problem = "leads to another database" if row[2] else "does not see the tables"
        return f"{problem}; this queue is in {self.name}"

    def explained(self, error: Exception) -> Exception:
        for cause in _causes(error):
            found = self._explain(cause)
            if found is not cause:
                return found
        return error


def _causes(error: Exception) -> Iterator[Exception]:
    """Yield the error, and each error that frameworks have wrapped in it."""
    known: list[BaseException | None] = [None]
    cause: BaseException | None = error
    while isinstance(cause, Exception) and cause not in known:
        yield cause
        known.append(cause)
        cause = getattr(cause, "orig", None) or cause.__cause__
