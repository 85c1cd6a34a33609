"""`sqlite3.Connection`, and `aiosqlite.Connection`, which is one in a thread of its own."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from rowcall.drivers.caller.connection import Family
from rowcall.store.statement import Row, Statement

if TYPE_CHECKING:
    import aiosqlite


class Sqlite3:
    database: Family = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def key(self) -> object:
        """The file: the connection itself cannot be referred to weakly."""
        return file_of(self._connection)

    def execute(self, statement: Statement[object]) -> list[Row]:
        # Python keeps one prepared statement for all threads, and does not keep them from each other
        with _turns.get(id(self._connection), _NOBODY):
            found = cursor_of(self._connection).execute(statement.sql, statement.parameters).fetchall()
        return found if self._connection.text_factory is str else [as_text(row) for row in found]


def cursor_of(connection: sqlite3.Connection) -> sqlite3.Cursor:
    """One that gives rows as they are, whatever the caller has made of his."""
    cursor = sqlite3.Cursor(connection)
    cursor.row_factory = None
    return cursor


known_files: dict[int, object] = {}
"""The files of open connections of exactly this class, by their identity."""
bound_files: dict[int, object] = {}
"""Of those which one thread alone can use, their files; None for others. Known since they were lent a second time."""
_turns: dict[int, threading.RLock] = {}
_NOBODY = nullcontext()
_looking = threading.Lock()


class _Mark:
    """A function of SQL that its connection lets go of when it is closed.

    The connection itself cannot be referred to weakly, and asking it for its file each time took half as long as the
    INSERT.
    """

    __slots__ = ("__weakref__",)

    def __call__(self) -> int:
        return 1


def file_of(connection: sqlite3.Connection) -> object:
    """The file of its main database."""
    key = id(connection)
    if (known := known_files.get(key)) is None:
        with _looking:
            return known_files.get(key) or _asked(connection)
    if key not in bound_files:
        bound_files[key] = known if _is_bound(connection) else None
    return known


def _asked(connection: sqlite3.Connection) -> object:
    file: object = cursor_of(connection).execute("pragma database_list").fetchone()[2]  # main comes first
    if type(connection) is sqlite3.Connection:
        mark, key = _Mark(), id(connection)
        with suppress(sqlite3.OperationalError):  # another thread is reading: then it is asked once more
            connection.create_function("rowcall_lent", 0, mark)
            known_files[key], _turns[key] = file, threading.RLock()
            weakref.finalize(mark, _forget, key).atexit = False
    return file


def _forget(key: int) -> None:
    known_files.pop(key, None)
    bound_files.pop(key, None)
    _turns.pop(key, None)


def _is_bound(connection: sqlite3.Connection) -> bool:
    """Whether it refuses other threads: it does not say so, and has to be tried."""
    refused = False

    def touch() -> None:
        nonlocal refused
        try:
            connection.cursor().close()
        except sqlite3.ProgrammingError:
            refused = True

    stranger = threading.Thread(target=touch, name="rowcall-stranger")
    stranger.start()
    stranger.join()
    return refused


def _after_fork() -> None:
    """In the child, where a thread that it does not have may hold them."""
    global _looking
    _looking = threading.Lock()
    _turns.update({key: threading.RLock() for key in list(_turns)})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Aiosqlite:
    database: Family = "sqlite"

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    @property
    def key(self) -> object:
        return self._connection

    async def ready(self) -> None:
        pass

    async def execute(self, statement: Statement[object]) -> list[Row]:
        if self._connection.row_factory in (None, sqlite3.Row):
            found = await self._connection.execute_fetchall(statement.sql, statement.parameters)
            return [as_text(tuple(row)) for row in found]
        cursor = await self._connection.cursor()
        cursor.row_factory = None
        try:
            await cursor.execute(statement.sql, statement.parameters)
            return [as_text(tuple(row)) for row in await cursor.fetchall()]
        finally:
            await cursor.close()


def as_text(row: Row) -> Row:
    # no column of ours is a blob: bytes come from the caller's text_factory
    return tuple(value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else value for value in row)
