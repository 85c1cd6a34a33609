"""Read the version of the tables before Rowcall opens a database. Changes nothing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from functools import partial
from urllib.parse import quote

from rowcall.base.effects import drive
from rowcall.drivers.sqlite.errors import explained
from rowcall.queue import Queue
from rowcall.store.dialect import Version
from rowcall.store.sqlite.dialect import SqliteDialect
from rowcall.store.statement import Row, Statement

PATIENCE_SECONDS = 2.0


def version_of(queue: Queue) -> Version:
    """Return the version of the tables; 0 if there are none."""
    if queue.config.server is not None:
        return queue.database.read(queue.dialect.version(), snapshot=True)
    path = queue.database.path
    try:
        with open_read_only(path) as raw:
            return version_in(raw, queue.config.table_prefix)
    except sqlite3.Error as error:
        raise explained(error, path) from error


@contextlib.contextmanager
def open_read_only(path: str) -> Iterator[sqlite3.Connection]:
    """Open a connection that creates no file and writes nothing."""
    mode = "rw" if os.access(path, os.W_OK) and os.access(os.path.dirname(os.path.abspath(path)), os.W_OK) else "ro"
    raw = sqlite3.connect(
        f"file:{quote(os.path.abspath(path))}?mode={mode}", uri=True, timeout=PATIENCE_SECONDS, isolation_level=None
    )
    try:
        raw.execute("pragma query_only = on")
        yield raw
    finally:
        raw.close()


def version_in(raw: sqlite3.Connection, prefix: str) -> Version:
    """Return the version of the tables in a file; 0 if it has none with that prefix."""
    return drive(SqliteDialect(prefix).version(), partial(rows_in, raw))


def rows_in(raw: sqlite3.Connection, statement: Statement[Row]) -> list[Row]:
    """Run a statement of a plan."""
    return raw.execute(statement.sql, statement.parameters).fetchall()
