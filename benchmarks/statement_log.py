"""Which statements a server was asked to run, by its own log."""

from __future__ import annotations

import re
from contextlib import closing

from benchmarks.database import connect
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of

_STATEMENT = re.compile(r"^[^\t].*? LOG:  (?:statement|execute [^:]*): ", re.MULTILINE)


class StatementLog:
    """Has the server log every statement for a database, from the next connection on; other databases log none."""

    def __init__(self, server: PostgresServer, url: str) -> None:
        self._path = server.log
        with closing(connect(url)) as database:
            database.rows(f"alter database {database_of(url)} set log_statement = 'all'")

    def count(self) -> int:
        """How many were run so far."""
        return len(_STATEMENT.findall(self._path.read_text(errors="replace")))
