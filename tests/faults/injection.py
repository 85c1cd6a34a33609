"""Let the n-th call of a database fail, in each way in which it can.

Every call that reaches the driver counts: statements of plans, BEGIN, COMMIT and ROLLBACK. Production code knows
nothing of it: SQLite's connection is put into a proxy, and a method of psycopg's cursor and of PyMySQL's connection is
replaced.
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
from typing import Any, Protocol
from unittest import mock

import psycopg
import pymysql
from pymysql.constants import SERVER_STATUS

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.config import Config
from rowcall.drivers.caller import sqlite3 as caller_sqlite3
from rowcall.drivers.mysql.connection import options_of
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
MYSQL_ERRORS = {
    Fault.REFUSED: 1041,
    Fault.SERIALIZATION: 1205,
    Fault.DEADLOCK: 1213,
    Fault.TIMEOUT: 1317,
    Fault.DISK_FULL: 1114,
}
"""Out of memory, a lock that was waited for too long, a deadlock, a killed query, a full table."""


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
        if self._is_armed and (word in _COMMITS or (not in_transaction and word in ("insert", "update", "delete"))):
            self.writes += 1


_MAY_WRITE = ("insert", "update", "delete", "with")
_COMMITS = ("commit", "create", "alter", "drop")
"""On MariaDB and MySQL, a change of a table commits. The others change tables in one transaction: `SQL` has them."""


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
            _cut_link(cursor.connection.fileno())
        elif fault in POSTGRES_ERRORS:  # the server itself raises it, and aborts the transaction
            query = f"do $$ begin raise exception 'injected' using errcode = '{POSTGRES_ERRORS[fault]}'; end $$"
            return self._execute(cursor, query, prepare=False)
        was_open = cursor.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
        with contextlib.ExitStack() as stack:
            if fault is Fault.GONE_INSIDE:
                assert isinstance(self._injector.slow_commit, SlowPostgresCommit)
                self._execute(cursor, SlowPostgresCommit.BEGIN, prepare=False)
                stack.enter_context(self._injector.slow_commit.cut_inside(cursor.connection))
            result = self._execute(cursor, query, *arguments, **options)
        self._injector.note_written(str(query), in_transaction=was_open)
        if fault is Fault.DIES_AFTER:
            die()
        if fault in (Fault.REPLY_LOST, Fault.GONE_AFTER, Fault.GONE_INSIDE):  # inside: it had nothing to commit
            _cut_link(cursor.connection.fileno())
        if fault in (Fault.REPLY_LOST, Fault.GONE_INSIDE):
            return self._execute(cursor, "select 1")  # raises what a lost connection raises
        return result


class SlowCommit(Protocol):
    """Keeps a server inside a commit until the client, whose connection is cut, has gone on for a while."""

    def close(self) -> None:
        """Wait until the server has decided."""


class _CommitCut:
    """Cuts a connection once the server waits inside its commit, and lets that commit end a moment later.

    `waits` returns whether it waits, `lets_go` lets it commit.
    """

    def __init__(self, link: socket.socket, waits: Callable[[], bool], lets_go: Callable[[], None]) -> None:
        self._link, self._waits, self._lets_go = link, waits, lets_go
        self._returned = threading.Event()
        self._thread = threading.Thread(target=self._cut, name="slow commit")
        self._thread.start()

    def returned(self) -> None:
        """The call that commits has returned."""
        self._returned.set()

    def join(self) -> None:
        self._thread.join()

    def _cut(self) -> None:
        with contextlib.closing(self._link):
            while not (commits := self._waits()) and not self._returned.is_set():
                pass
            if commits:
                self._link.shutdown(socket.SHUT_RDWR)
                self._returned.wait()
                SYSTEM_CLOCK.sleep(INSIDE_SECONDS)  # in which the client continues
        self._lets_go()


class SlowPostgresCommit:
    """A trigger that is deferred to the commit waits for a lock of this connection."""

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
        self._cut: _CommitCut | None = None

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
        pid = connection.info.backend_pid
        waits = f"select 1 from pg_locks where pid = {pid} and locktype = 'advisory' and not granted"
        there = f"select 1 from pg_stat_activity where pid = {pid} and state <> 'idle'"

        def let_go() -> None:
            self._raw.execute("select pg_advisory_unlock_all()")
            eventually(lambda: not self._raw.execute(there.encode()).fetchone(), message="the end of the commit")

        self._raw.execute(f"select pg_advisory_lock({self.LOCK})".encode())
        link = socket.socket(fileno=os.dup(connection.fileno()))
        self._cut = _CommitCut(link, lambda: self._raw.execute(waits.encode()).fetchone() is not None, let_go)
        try:
            yield
        finally:
            self._cut.returned()

    def close(self) -> None:
        if self._cut is not None:
            self._cut.join()
        self._raw.close()


class SlowMysqlCommit:
    """A global read lock of this connection keeps commits, and statements that commit at once, from their end."""

    def __init__(self, url: str) -> None:
        self._raw = pymysql.connect(**options_of(url), autocommit=True)
        self._cut: _CommitCut | None = None

    @contextlib.contextmanager
    def cut_inside(self, connection: pymysql.Connection) -> Iterator[None]:
        """The same."""
        mine = f"from information_schema.processlist where id = {connection.thread_id()}"

        def let_go() -> None:
            self._asked("unlock tables")
            eventually(lambda: not self._asked(f"select 1 {mine}"), message="the end of the commit")

        self._asked("flush tables with read lock")
        link = socket.socket(fileno=os.dup(connection._sock.fileno()))
        self._cut = _CommitCut(link, lambda: self._asked(f"select 1 {mine} and state like 'Waiting for%lock'"), let_go)
        try:
            yield
        finally:
            self._cut.returned()

    def close(self) -> None:
        if self._cut is not None:
            self._cut.join()
        self._raw.close()

    def _asked(self, sql: str) -> bool:
        with self._raw.cursor() as cursor:
            return bool(cursor.execute(sql))


def slow_commit_at(url: str) -> SlowCommit:
    return SlowMysqlCommit(url) if url.startswith("mysql") else SlowPostgresCommit(url)


class FaultyQuery:
    """What replaces `Connection.query` of PyMySQL, for the connections of Rowcall and for those of callers."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector

    def query(self, connection: pymysql.Connection, sql: str, *arguments: Any) -> int:
        if not (isinstance(connection, CallerMysql) or connection._connect_attrs.get("program_name") == "rowcall"):
            return _query(connection, sql, *arguments)
        fault = self._injector.fault_for(sql)
        if fault is Fault.CANCELLED:
            self._injector.cancel()
        elif fault is Fault.DIES_BEFORE:
            die()
        elif fault is Fault.GONE_BEFORE:
            _cut_link(connection._sock.fileno())
        elif fault in MYSQL_ERRORS:
            if fault is Fault.DEADLOCK:
                _query(connection, "rollback")  # as the server does itself
            sql = f"signal sqlstate 'HY000' set mysql_errno = {MYSQL_ERRORS[fault]}, message_text = 'injected'"
            return _query(connection, sql)
        was_open = is_in_transaction(connection)
        with contextlib.ExitStack() as stack:
            if fault is Fault.GONE_INSIDE:
                assert isinstance(self._injector.slow_commit, SlowMysqlCommit)
                stack.enter_context(self._injector.slow_commit.cut_inside(connection))
            result = _query(connection, sql, *arguments)
        self._injector.note_written(sql, in_transaction=was_open)
        if fault is Fault.DIES_AFTER:
            die()
        if fault in (Fault.REPLY_LOST, Fault.GONE_AFTER, Fault.GONE_INSIDE):  # inside: it had nothing to commit
            _cut_link(connection._sock.fileno())
        if fault in (Fault.REPLY_LOST, Fault.GONE_INSIDE):
            _query(connection, "select 1")  # raises what a lost connection raises
        return result


_query: Callable[..., int] = pymysql.Connection.query


def is_in_transaction(connection: pymysql.Connection) -> bool:
    """Return whether a transaction is open, by what the server has said last."""
    return bool(connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)


class CallerMysql(pymysql.Connection):  # type: ignore[misc]  # has no types
    """A connection of the app, on which Rowcall's statements may fail."""

    def execute(self, sql: str) -> None:
        """Run a statement of the app."""
        _query(self, sql)


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


def _cut_link(number: int) -> None:
    with contextlib.closing(socket.socket(fileno=os.dup(number))) as link, contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def injected(injector: Injector) -> Iterator[None]:
    """Put the injector between Rowcall and its drivers."""
    opened, faulty, on_mysql = connection.open_file, FaultyCursor(injector), FaultyQuery(injector)

    def open_file(path: str, config: Config) -> FaultyFile:
        return FaultyFile(opened(path, config), injector)

    def execute(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        return faulty.execute(cursor, query, *arguments, **options)

    def query(connection: pymysql.Connection, sql: str, *arguments: Any) -> int:
        return on_mysql.query(connection, sql, *arguments)

    with (
        mock.patch.object(connection, "open_file", open_file),
        mock.patch.object(psycopg.RawCursor, "execute", execute),
        mock.patch.object(pymysql.Connection, "query", query),
        mock.patch.object(caller_sqlite3, "sqlite3", _faulty_cursors(injector)),
    ):
        yield
