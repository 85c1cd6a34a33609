"""Whether a lent connection leads to the queue's own database, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator

from rowcall.domain.errors import InvalidOption
from rowcall.drivers.caller.connection import Family, IdentityQuery
from rowcall.drivers.sqlite.errors import explained
from rowcall.store.statement import Plan, Row, Statement, fetch, no_row


class SqliteGuard:
    database: Family = "sqlite"

    def __init__(self, path: str) -> None:
        self._path = self.name = path

    is_ready = True

    def prepare(self, identity: IdentityQuery | None) -> None:
        pass

    def check(self, identity: IdentityQuery | None) -> Plan[str | None]:
        rows = yield from fetch(Statement("pragma database_list", (), no_row))
        file = next((str(row[2] or "") for row in rows if row[1] == "main"), "")
        if file and os.path.exists(self._path) and os.path.samefile(file, self._path):
            return None
        return f"is open on {file or 'a database in memory'}, and this queue is in {self._path}"

    def explained(self, error: Exception) -> Exception:
        for cause in causes(error):
            if isinstance(cause, sqlite3.ProgrammingError):
                return InvalidOption("connection", f"cannot be used here: {cause}")
            if isinstance(cause, sqlite3.Error):
                return explained(cause, self._path)
        return error


class PostgresGuard:
    """`own` tells what the queue's own connections see, when they are asked where they are."""

    database: Family = "postgresql"

    def __init__(
        self,
        name: str,
        own: Callable[[IdentityQuery], Row],
        explained: Callable[[Exception], Exception],
    ) -> None:
        self.name = name
        self._own = own
        self._explained = explained
        self._known: Row | None = None
        self.is_ready = False

    def prepare(self, identity: IdentityQuery | None) -> None:
        """Ask anew: a server that was restarted is another one."""
        assert identity is not None
        self._known = self._own(identity)
        self.is_ready = True

    def check(self, identity: IdentityQuery | None) -> Plan[str | None]:
        assert identity is not None
        (found,) = yield from fetch(identity)
        text, number, fraction = found[3:]
        # of a float only that it can be sent: where it comes as text, it goes as text
        if (text, number, str(fraction)) != ("text", 7, "0.5"):
            return "has type codecs of its own for text, int4 or float8, without which Rowcall cannot do"
        if self._known is not None and found[:3] == self._known[:3]:
            return None
        where = "leads to another database" if found[2] else "does not see the tables"
        return f"{where}; this queue is in {self.name}"

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
