"""One SQLite connection of ours: how it is opened, and how it runs a plan in a transaction."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rowcall.domain.config import Config
from rowcall.domain.errors import FileReplaced, StoreUnavailable
from rowcall.drivers import forking
from rowcall.drivers.runner import run
from rowcall.drivers.side_files import make_folder
from rowcall.drivers.sqlite.errors import explained
from rowcall.drivers.sqlite.file_identity import SameFile
from rowcall.drivers.sqlite.write_gate import WriteGate
from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")

logger = logging.getLogger("rowcall")

OLDEST_SQLITE = (3, 35, 0)
CACHE_KIB = 8192
CHECKPOINT_PAGES = 1000
WAL_LIMIT_BYTES = 32 * 1024 * 1024
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.001, 0.05
READ_SECONDS = 0.005


_open_connections: weakref.WeakSet[SqliteConnection] = weakref.WeakSet()
_held_while_forking: list[SqliteConnection] = []
_handshake: forking.Handshake | None = None
_fork_waits = False
_never_closed: list[SqliteConnection] = []
_in_transaction_when_forked: set[str] = set()


class SqliteConnection:
    """Used by one thread at a time."""

    def __init__(self, config: Config, path: str, side_folder: str, *, watchful: bool = False) -> None:
        """A watchful one refuses a file that was deleted or replaced, and is opened anew then."""
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreUnavailable(
                f"SQLite {sqlite3.sqlite_version} is too old: 3.35 is the oldest that works",
                "Use a newer Python or system SQLite",
            )
        self._path = path
        self._config = config
        self._file: SameFile | None = None
        self._told_of_gate = False
        self._gate = WriteGate(side_folder, config.gate_seconds, path)
        # held during each call of SQLite, and during nothing else: a fork waits for it (see _before_fork)
        self._in_use = threading.RLock()
        self._interruptible = False
        self._interrupting = threading.Lock()
        self._raw: sqlite3.Connection
        with forking.lock:
            _open_connections.add(self)
        try:
            self._open()
            self._file = SameFile(path) if watchful else None
            make_folder(side_folder, path)
        except sqlite3.Error as error:
            raise explained(error, path) from error
        except OSError as error:
            self.close()
            raise StoreUnavailable(
                f"{side_folder} cannot be made: {error.strerror}", "It must be beside the database"
            ) from error

    def execute(self, statement: Statement[object]) -> list[Row]:
        return self._call(statement.sql, statement.parameters)

    def _call(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Call SQLite. Wait for the locks of others outside it, so that another thread can fork meanwhile."""
        patience: _Patience | None = None
        while True:
            if _fork_waits:  # a busy thread would take its own lock again before the one that forks gets it
                _wait_for_fork()
            try:
                with self._in_use:
                    cursor = self._raw.execute(sql, parameters)
                    # a statement that gives no rows is over now; fetching would only take the interpreter's lock again
                    return cursor.fetchall() if cursor.description is not None else []
            except sqlite3.OperationalError as error:
                if self._interruptible and getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
                    continue  # by a thread that forks: read once more when it has
                patience = patience or _Patience(self._config.busy_timeout_seconds)
                patience.wait_after(error)

    def read(self, plan: Plan[T]) -> T:
        try:
            self._make_sure_of_file()
            return self._read(plan)
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    def read_snapshot(self, plan: Plan[T]) -> T:
        """`read`, in a transaction: all statements see the same moment."""
        try:
            self._call("begin")
            try:
                return self._read(plan)
            finally:
                self._call("rollback")
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    def _read(self, plan: Plan[T]) -> T:
        self._interruptible = True
        try:
            return run(plan, self.execute)
        finally:
            with self._interrupting:
                self._interruptible = False

    def run(self, plan: Plan[T]) -> T:
        """Run a plan between `begin` and `end`."""
        try:
            return run(plan, self.execute)
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    def write(self, plan: Plan[T], *, one_statement: bool = False) -> T:
        """Run a plan in a write transaction: all of it, or nothing."""
        if not one_statement:
            with self.transaction():
                return run(plan, self.execute)
        try:  # SQLite makes one statement a transaction by itself, in a third of the calls
            self._make_sure_of_file()
            self._enter_gate()
            return run(plan, self.execute)
        except sqlite3.Error as error:
            raise explained(error, self._path) from error
        finally:
            self._gate.leave()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self._make_sure_of_file()
            self._enter_gate()
            self._call("begin immediate")
            try:
                yield
                self._call("commit")
            except BaseException:
                if self._raw.in_transaction:
                    self._call("rollback")
                raise
        except sqlite3.Error as error:
            raise explained(error, self._path) from error
        finally:
            self._gate.leave()

    def begin(self) -> None:
        """`transaction`, in parts: what comes between this and `end` may be run by any thread."""
        try:
            self._enter_gate()
            self._call("begin immediate")
        except BaseException as error:
            self._gate.leave()
            if isinstance(error, sqlite3.Error):
                raise explained(error, self._path) from error
            raise

    def end(self, *, commit: bool) -> None:
        try:
            if commit:
                self._call("commit")
        except sqlite3.Error as error:
            raise explained(error, self._path) from error
        finally:
            if self._raw.in_transaction:
                self._call("rollback")
            self._gate.leave()

    @property
    def in_transaction(self) -> bool:
        return self._raw.in_transaction

    def change_counter(self) -> int:
        """A number that changes when somebody else commits to the file: cheaper than any look."""
        try:
            self._make_sure_of_file()
            return self._number("data_version")
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    def checkpoint(self) -> None:
        """Fold the WAL back as far as that hinders nobody."""
        try:
            self._call("pragma wal_checkpoint(passive)")
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    @property
    def page_size(self) -> int:
        return self._number("page_size")

    def give_back(self, pages: int) -> int:
        """Cut off so many free pages from the end of the file, in a short transaction; gives how many that were."""
        try:
            self._enter_gate()
            before = self._number("freelist_count")
            self._call(f"pragma incremental_vacuum({pages})")
            return before - self._number("freelist_count")
        except sqlite3.Error as error:
            raise explained(error, self._path) from error
        finally:
            self._gate.leave()

    def _number(self, pragma: str) -> int:
        return int(str(self._call(f"pragma {pragma}")[0][0]))

    def close(self) -> None:
        with self._in_use:
            self._raw.close()
        self._gate.close()
        with forking.lock:
            _open_connections.discard(self)

    def _hold(self) -> None:
        """Before a fork: wait until no thread is inside SQLite with this connection; a long read starts over."""
        while not self._in_use.acquire(timeout=READ_SECONDS):
            with self._interrupting:
                if self._interruptible:
                    self._raw.interrupt()
        _held_while_forking.append(self)

    @property
    def _is_in_transaction(self) -> bool:
        try:
            return self._raw.in_transaction
        except (AttributeError, sqlite3.ProgrammingError):  # not opened yet, or closed
            return False

    def _dispose(self, *, permitted: bool) -> None:
        """In a forked child. Closing drops nothing of the parent's: its locks are its own, and it still has them."""
        if permitted or not self._is_in_transaction:
            with contextlib.suppress(AttributeError):
                self._raw.close()
        else:
            _never_closed.append(self)
            _in_transaction_when_forked.add(self._path)

    def _open(self) -> None:
        patience = _Patience(self._config.busy_timeout_seconds)
        while True:
            try:
                with self._in_use:
                    self._raw = _open(self._path, self._config)
                    return
            except sqlite3.OperationalError as error:
                patience.wait_after(error)

    def _make_sure_of_file(self) -> None:
        if self._file is None or self._file.is_same():
            return
        if not self._file.is_there:
            raise FileReplaced(
                f"{self._path} was deleted while it was open",
                "What it held is lost; a new one is made by the next enqueue, or by rowcall migrate",
            )
        with self._in_use:
            self._raw.close()
        self._open()
        self._file = SameFile(self._path)
        raise FileReplaced(f"{self._path} was replaced while it was open", "It is opened anew")

    def _enter_gate(self) -> None:
        if self._path in _in_transaction_when_forked:
            raise StoreUnavailable(
                f"this process was forked inside a transaction on {self._path}, and cannot write to that file",
                "Fork before the block, or after it",
            )
        try:
            self._gate.enter()
        except OSError as error:
            if not self._told_of_gate:  # it only makes waiting fair: without it SQLite's own lock has to do
                self._told_of_gate = True
                logger.warning("the files beside %s cannot be opened (%s): writers wait less fairly", self._path, error)


class _Patience:
    """Waits for the locks of others, as SQLite's own busy handler would."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._pause = FIRST_PAUSE_SECONDS

    def wait_after(self, error: sqlite3.OperationalError) -> None:
        """Pause before the next try; raise the error if another try is of no use."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0 or not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
            raise error
        time.sleep(min(self._pause, remaining))
        self._pause = min(self._pause * 2, LAST_PAUSE_SECONDS)


def _open(path: str, config: Config) -> sqlite3.Connection:
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise _missing_folder()
    raw = sqlite3.connect(
        path,
        timeout=0,  # see _Patience
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _prepare(raw, config)
    except BaseException:
        raw.close()
        raise
    return raw


def _prepare(raw: sqlite3.Connection, config: Config) -> None:
    # plain SQL may have stored bytes that are not UTF-8: show them, rather than fail a whole group for one row
    raw.text_factory = _lenient_text
    if raw.execute("pragma page_count").fetchone() == (0,):
        raw.execute("pragma auto_vacuum = incremental")
    _switch_to_wal(raw)
    synchronous = "off" if config.in_memory else config.durability
    for setting in (
        f"synchronous = {synchronous}",
        "foreign_keys = on",
        "temp_store = memory",
        f"cache_size = -{CACHE_KIB}",
        "cache_spill = off",  # see _before_fork
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_LIMIT_BYTES}",
    ):
        raw.execute(f"pragma {setting}")
    if raw.execute("pragma foreign_keys").fetchone() != (1,):
        raise StoreUnavailable(
            "this build of SQLite has no foreign keys",
            "Use a Python whose sqlite3 module has them: history relies on them",
        )


def _switch_to_wal(raw: sqlite3.Connection) -> None:
    mode = raw.execute("pragma journal_mode").fetchone()[0]
    if mode != "wal":
        mode = raw.execute("pragma journal_mode = wal").fetchone()[0]
    if mode != "wal":
        raise StoreUnavailable(
            f"the file cannot be switched to write-ahead logging (it stays in mode {mode})",
            "A network or read-only file system is the usual cause: keep the file on a local disk",
        )


def _lenient_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _missing_folder() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorname = "SQLITE_CANTOPEN"
    return error


# SQLite counts its file locks per process and file, in memory that a fork copies: a child that keeps its parent's
# connections believes to hold locks that it does not have, and a checkpoint then deletes the WAL under it. So nobody
# forks while a thread is inside SQLite, and the child closes what it inherited before it opens anything.
# Closing rolls back. In the middle of a write transaction that touches nothing of the parent's as long as no page of
# it is in the WAL: it is there after a commit, for which the parent waits until the child has closed, and after a
# spill of the cache, which is switched off.


def _wait_for_fork() -> None:
    with forking.lock:
        pass


def _before_fork() -> None:
    global _fork_waits, _handshake
    _fork_waits = True
    forking.lock.acquire()
    _fork_waits = True  # another thread that forked may have reset it
    forking.each(list(_open_connections), SqliteConnection._hold)
    if any(connection._is_in_transaction for connection in _held_while_forking):
        with contextlib.suppress(OSError):  # no descriptor is left: then the child cannot write to the file
            _handshake = forking.Handshake()


def _after_fork_in_parent() -> None:
    try:
        if _handshake is not None:
            _handshake.wait_for_child()
    finally:
        _end_fork()


def _after_fork_in_child() -> None:
    permitted = _handshake is not None and _handshake.take_permit()
    try:
        forking.each(_held_while_forking, lambda connection: connection._dispose(permitted=permitted))
    finally:
        if _handshake is not None:
            _handshake.close()
        _open_connections.clear()
        _end_fork()


def _end_fork() -> None:
    global _fork_waits, _handshake
    _handshake = None
    while _held_while_forking:
        _held_while_forking.pop()._in_use.release()
    _fork_waits = False
    forking.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
