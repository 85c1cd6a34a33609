"""Let the n-th call of a database fail, in each way in which it can.

Every call that reaches the driver counts: statements of plans, BEGIN, COMMIT and ROLLBACK. Production code knows
nothing of it: SQLite's connection is put into a proxy, and the cursor of psycopg is replaced.
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import psycopg

from rowcall.domain.config import Config
from rowcall.drivers.caller import sqlite3 as caller_sqlite3
from rowcall.drivers.postgres.connection import OwnConnection
from rowcall.drivers.sqlite import connection


class Fault(enum.StrEnum):
    REFUSED = "refused"
    REPLY_LOST = "reply lost"
    GONE_BEFORE = "gone before"
    GONE_AFTER = "gone after"
    SERIALIZATION = "serialization"
    DEADLOCK = "deadlock"
    TIMEOUT = "timeout"
    DISK_FULL = "disk full"
    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    CANCELLED = "cancelled"


NEEDS_SERVER = frozenset({Fault.REPLY_LOST, Fault.GONE_BEFORE, Fault.GONE_AFTER, Fault.DEADLOCK})
"""SQLite has no connection that can be lost, and one writer: no cycle of locks."""
DEADLY = frozenset({Fault.DIES_BEFORE, Fault.DIES_AFTER})

SQLITE_ERRORS = {
    Fault.REFUSED: ("SQLITE_IOERR", "disk I/O error"),
    Fault.SERIALIZATION: ("SQLITE_BUSY", "database is locked"),
    Fault.TIMEOUT: ("SQLITE_INTERRUPT", "interrupted"),
    Fault.DISK_FULL: ("SQLITE_FULL", "database or disk is full"),
}
POSTGRES_ERRORS = {
    Fault.REFUSED: "53200",
    Fault.SERIALIZATION: "40001",
    Fault.DEADLOCK: "40P01",
    Fault.TIMEOUT: "57014",
    Fault.DISK_FULL: "53100",
}


def faults_of(database: str) -> list[Fault]:
    return [fault for fault in Fault if database != "sqlite" or fault not in NEEDS_SERVER]


class Injector:
    """Counts the calls of some threads, or of all, and lets one of them fail.

    `sent` are the SQL texts so far, and `writes` the number of transactions that wrote.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._fault: Fault | None = None
        self._counts: Callable[[], bool] = lambda: True
        self._is_armed = False
        self.sent: list[str] = []
        self.writes = 0
        self.cancel: Callable[[], None] = lambda: None

    def arm(self, number: int = 0, fault: Fault | None = None, counts: Callable[[], bool] = lambda: True) -> None:
        """Let call `number` fail, counted from 1. `counts`: whether the calls of this thread count."""
        self._number, self._fault, self._counts = number, fault, counts
        self.sent, self.writes, self._is_armed = [], 0, True

    def disarm(self) -> None:
        self._is_armed = False

    @property
    def reached(self) -> bool:
        """Whether the call that is to fail was made."""
        return len(self.sent) >= self._number

    def fault_for(self, sql: str) -> Fault | None:
        with self._lock:
            if not self._is_armed or not self._counts():
                return None
            self.sent.append(" ".join(sql.split()))
            if len(self.sent) != self._number or self._fault is None:
                return None
            return self._fault

    def note_written(self, sql: str, *, in_transaction: bool) -> None:
        word = sql.split(None, 1)[0].lower().rstrip(";")
        if self._is_armed and (word == "commit" or (not in_transaction and word in ("insert", "update", "delete"))):
            self.writes += 1


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FaultyFile:
    """A connection of sqlite3 whose calls may fail."""

    def __init__(self, raw: sqlite3.Connection | _Executor, injector: Injector) -> None:
        self._raw = raw
        self._injector = injector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        fault = self._injector.fault_for(sql)
        if fault is Fault.CANCELLED:
            self._injector.cancel()
        elif fault is Fault.DIES_BEFORE:
            die()
        elif fault in SQLITE_ERRORS:
            if fault is Fault.DISK_FULL and self._raw.in_transaction:
                self._raw.execute("rollback")  # as SQLite does itself
            name, text = SQLITE_ERRORS[fault]
            error = sqlite3.OperationalError(text)
            error.sqlite_errorname = name
            raise error
        was_open = self._raw.in_transaction
        cursor = self._raw.execute(sql, parameters)
        self._injector.note_written(sql, in_transaction=was_open)
        if fault is Fault.DIES_AFTER:
            die()
        return cursor


class FaultyCursor:
    """What replaces `RawCursor.execute` of psycopg for the connections of Rowcall."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._execute: Any = psycopg.RawCursor.execute

    def execute(self, cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(cursor.connection, (OwnConnection, CallerConnection)):
            return self._execute(cursor, query, *arguments, **options)
        fault = self._injector.fault_for(str(query))
        if fault is Fault.CANCELLED:
            self._injector.cancel()
        elif fault is Fault.DIES_BEFORE:
            die()
        elif fault is Fault.GONE_BEFORE:
            _cut(cursor.connection)
        elif fault in POSTGRES_ERRORS:  # the server itself raises it, and aborts the transaction
            query = f"do $$ begin raise exception 'injected' using errcode = '{POSTGRES_ERRORS[fault]}'; end $$"
            return self._execute(cursor, query, prepare=False)
        was_open = cursor.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        result = self._execute(cursor, query, *arguments, **options)
        self._injector.note_written(str(query), in_transaction=was_open)
        if fault is Fault.DIES_AFTER:
            die()
        if fault in (Fault.REPLY_LOST, Fault.GONE_AFTER):
            _cut(cursor.connection)
        if fault is Fault.REPLY_LOST:
            return self._execute(cursor, "select 1")  # raises what a lost connection raises
        return result


class CallerConnection(psycopg.Connection[Any]):
    """A connection of the app, on which Rowcall's statements may fail."""


class CallerFile(sqlite3.Connection):
    """The same, of sqlite3."""


def _faulty_cursors(injector: Injector) -> SimpleNamespace:
    """Return what replaces the module `sqlite3` where Rowcall uses a caller's connection."""

    class Cursor(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = ()) -> Cursor:
            # one that belongs to the cursor runs the statement and returns its own cursor, which the caller reads
            FaultyFile(_Executor(self.connection, super().execute), injector).execute(sql, parameters)
            return self

    return SimpleNamespace(**{**vars(sqlite3), "Cursor": Cursor})


class _Executor:
    """A connection that runs statements on one of its cursors."""

    def __init__(self, raw: sqlite3.Connection, execute: Callable[..., sqlite3.Cursor]) -> None:
        self._raw = raw
        self.execute = execute

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def _cut(raw: psycopg.Connection[Any]) -> None:
    with contextlib.closing(socket.socket(fileno=os.dup(raw.fileno()))) as link:
        link.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def injected(injector: Injector) -> Iterator[None]:
    """Put the injector between Rowcall and its drivers."""
    opened, faulty = connection.open_file, FaultyCursor(injector)

    def open_file(path: str, config: Config) -> FaultyFile:
        return FaultyFile(opened(path, config), injector)

    def execute(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        return faulty.execute(cursor, query, *arguments, **options)

    with (
        mock.patch.object(connection, "open_file", open_file),
        mock.patch.object(psycopg.RawCursor, "execute", execute),
        mock.patch.object(caller_sqlite3, "sqlite3", _faulty_cursors(injector)),
    ):
        yield
