"""The standard library's `sqlite3.Connection`."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence

from rowcall.drivers import forking
from rowcall.drivers.caller.adapter import SyncAdapter
from rowcall.store.statement import Parameter, Row, Statement


class Sqlite3(SyncAdapter[sqlite3.Connection]):
    database = "sqlite"

    @property
    def key(self) -> object:
        """Return the file of its main database: the connection itself takes no weak reference."""
        return self._rows("pragma database_list")[0][2]

    def execute(self, statement: Statement[object]) -> list[Row]:
        found = self._rows(statement.sql, statement.parameters)
        return found if self._connection.text_factory is str else [as_text(row) for row in found]

    def _rows(self, sql: str, parameters: Sequence[Parameter] = ()) -> list[Row]:
        with _OneThread(self._connection):
            cursor = sqlite3.Cursor(self._connection)  # a subclass may have replaced `cursor` and `execute`
            cursor.row_factory = None
            return cursor.execute(sql, parameters).fetchall()


class _OneThread:
    """Let one thread at a time use a connection: its threads share prepared statements and BEGINs.

    A lock is kept only while a thread uses it, because a connection takes no weak reference.
    """

    __slots__ = ("_key", "_lock")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._key = id(connection)

    def __enter__(self) -> None:
        with forking.lock:
            self._lock, users = _in_use.get(self._key) or (threading.Lock(), 0)
            _in_use[self._key] = self._lock, users + 1
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()
        with forking.lock:
            _, users = _in_use.pop(self._key, (None, 0))
            if users > 1:
                _in_use[self._key] = self._lock, users - 1


_in_use: dict[int, tuple[threading.Lock, int]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_use.clear)


def as_text(row: Row) -> Row:
    # no column of Rowcall's tables is a blob: bytes come from the caller's text_factory
    return tuple(value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else value for value in row)
