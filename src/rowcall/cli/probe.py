"""A first look at a file, before Rowcall opens it: whether it is a database, and has the tables. Changes nothing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from urllib.parse import quote

from rowcall.drivers.sqlite_errors import explained

PATIENCE_SECONDS = 2.0


@contextlib.contextmanager
def looking(path: str) -> Iterator[sqlite3.Connection]:
    """A connection that makes no file, and that nobody writes with."""
    mode = "rw" if os.access(path, os.W_OK) and os.access(os.path.dirname(os.path.abspath(path)), os.W_OK) else "ro"
    raw = sqlite3.connect(
        f"file:{quote(os.path.abspath(path))}?mode={mode}", uri=True, timeout=PATIENCE_SECONDS, isolation_level=None
    )
    try:
        raw.execute("pragma query_only = on")
        yield raw
    finally:
        raw.close()


def tables_version(path: str, prefix: str) -> int:
    """The version of the tables in a file; 0 if it has none of that prefix."""
    try:
        with looking(path) as raw:
            return version_in(raw, prefix)
    except sqlite3.Error as error:
        raise explained(error, path) from error


def version_in(raw: sqlite3.Connection, prefix: str) -> int:
    table = f"{prefix}migration"
    if raw.execute("select 1 from sqlite_master where type = 'table' and name = ?", (table,)).fetchone() is None:
        return 0
    version: int | None = raw.execute(f"select max(version) from {table}").fetchone()[0]
    return version or 0
