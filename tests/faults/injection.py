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
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import psycopg

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.config import Config
from rowcall.drivers.caller import sqlite3 as caller_sqlite3
from rowcall.drivers.postgres.connection import OwnConnection
from rowcall.drivers.sqlite import connection
from rowcall.testing.deadline import eventually


class Fault(enum.StrEnum):
    REFUSED = "refused"
    REPLY_LOST = "reply lost"
    GONE_BEFORE = "gone before"
    GONE_AFTER = "gone after"
    GONE_INSIDE = "gone inside"
    SERIALIZATION = "serialization"
    DEADLOCK = "deadlock"
    TIMEOUT = "timeout"
    DISK_FULL = "disk full"
    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    CANCELLED = "cancelled"


OF_COMMITS = frozenset({Fault.GONE_INSIDE})
"""The connection is cut while the server commits: it commits later, when the caller has gone on."""
NEEDS_SERVER = frozenset({Fault.REPLY_LOST, Fault.GONE_BEFORE, Fault.GONE_AFTER, Fault.DEADLOCK}) | OF_COMMITS
"""SQLite has no connection that can be lost, and one writer: no cycle of locks."""
INSIDE_SECONDS = 0.15
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

    `sent` are the SQL texts so far, `commits` the numbers of texts which may commit, and `writes` the number of
    transactions that wrote. `slow_commit` is what `Fault.GONE_INSIDE` needs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._fault: Fault | None = None
        self._counts: Callable[[], bool] = lambda: True
        self._is_armed = False
        self.sent: list[str] = []
        self.commits: set[int] = set()
        self.writes = 0
        self.cancel: Callable[[], None] = lambda: None
        self.slow_commit: SlowCommit | None = None

    def arm(self, number: int = 0, fault: Fault | None = None, counts: Callable[[], bool] = lambda: True) -> None:
        """Let call `number` fail, counted from 1. `counts`: whether the calls of this thread count."""
        self._number, self._fault, self._counts = number, fault, counts
        self.sent, self.commits, self.writes, self._is_armed = [], set(), 0, True

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
        if self._is_armed and (word == "commit" or (not in_transaction and word in _MAY_WRITE)):
            self.commits.add(len(self.sent))
        if self._is_armed and (word == "commit" or (not in_transaction and word in ("insert", "update", "delete"))):
            self.writes += 1


_MAY_WRITE = ("insert", "update", "delete", "with")


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
        with contextlib.ExitStack() as stack:
            if fault is Fault.GONE_INSIDE:
                assert self._injector.slow_commit is not None
                self._execute(cursor, SlowCommit.BEGIN, prepare=False)
                stack.enter_context(self._injector.slow_commit.cut_inside(cursor.connection))
            result = self._execute(cursor, query, *arguments, **options)
        self._injector.note_written(str(query), in_transaction=was_open)
        if fault is Fault.DIES_AFTER:
            die()
        if fault in (Fault.REPLY_LOST, Fault.GONE_AFTER, Fault.GONE_INSIDE):  # inside: it had nothing to commit
            _cut(cursor.connection)
        if fault in (Fault.REPLY_LOST, Fault.GONE_INSIDE):
            return self._execute(cursor, "select 1")  # raises what a lost connection raises
        return result


class SlowCommit:
    """Keeps a server inside a commit until the client, whose connection is cut, has gone on for a while.

    A trigger that is deferred to the commit waits for a lock of this connection.
    """

    LOCK = 30
    BEGIN = "set storm.commits_slowly = 'yes'"
    TRIGGER = f"""
        create function public.commit_slowly() returns trigger language plpgsql as $$
        begin
          if current_setting('storm.commits_slowly', true) = 'yes' then
            perform pg_advisory_xact_lock_shared({LOCK});
          end if;
          return null;
        end $$"""

    def __init__(self, url: str) -> None:
        self._raw = psycopg.connect(url, autocommit=True)
        self._thread: threading.Thread | None = None
        self._returned = threading.Event()

    @classmethod
    def install(cls, raw: psycopg.Connection[Any], tables: Iterable[str]) -> None:
        raw.execute(cls.TRIGGER)
        for table in tables:
            raw.execute(
                f"create constraint trigger commit_slowly after insert or update or delete on public.{table}"
                " deferrable initially deferred for each row execute function public.commit_slowly()".encode()
            )

    @contextlib.contextmanager
    def cut_inside(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Cut the connection while the server commits what runs in this block, if that has anything to commit."""
        link = socket.socket(fileno=os.dup(connection.fileno()))
        self._raw.execute(f"select pg_advisory_lock({self.LOCK})".encode())
        self._thread = threading.Thread(target=self._cut, args=(link, connection.info.backend_pid), name="slow commit")
        self._thread.start()
        try:
            yield
        finally:
            self._returned.set()

    def _cut(self, link: socket.socket, pid: int) -> None:
        waits = f"select 1 from pg_locks where pid = {pid} and locktype = 'advisory' and not granted"
        there = f"select 1 from pg_stat_activity where pid = {pid} and state <> 'idle'"
        with contextlib.closing(link):
            while not (commits := self._raw.execute(waits.encode()).fetchone()) and not self._returned.is_set():
                pass
            if commits:
                link.shutdown(socket.SHUT_RDWR)
                self._returned.wait()
                SYSTEM_CLOCK.sleep(INSIDE_SECONDS)  # in which the client continues
        self._raw.execute("select pg_advisory_unlock_all()")
        eventually(lambda: not self._raw.execute(there.encode()).fetchone(), message="the end of the commit")

    def close(self) -> None:
        """Wait until the server has decided."""
        if self._thread is not None:
            self._thread.join()
        self._raw.close()


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
