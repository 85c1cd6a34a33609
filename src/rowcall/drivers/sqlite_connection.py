"""One SQLite connection of ours: how it is opened, and how it runs a plan in a transaction."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from typing import TypeVar

from rowcall.config import Config
from rowcall.drivers.beside import make_folder
from rowcall.drivers.gate import Gate
from rowcall.drivers.runner import run
from rowcall.drivers.same_file import SameFile
from rowcall.drivers.sqlite_errors import explained
from rowcall.errors import FileReplaced, StoreUnavailable
from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")

logger = logging.getLogger("rowcall")

OLDEST_SQLITE = (3, 35, 0)
CACHE_KIB = 8192
CHECKPOINT_PAGES = 1000
WAL_LIMIT_BYTES = 32 * 1024 * 1024


_open_connections: weakref.WeakSet[SqliteConnection] = weakref.WeakSet()
_held_while_forking: list[SqliteConnection] = []
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
        self._gate = Gate(side_folder, config.gate_seconds, path)
        self._in_use = threading.RLock()  # for the sake of those who fork: see _before_fork
        with self._in_use:
            _open_connections.add(self)
            try:
                self._raw = _open(path, config)
                self._file = SameFile(path) if watchful else None
                make_folder(side_folder, path)
            except sqlite3.Error as error:
                raise explained(error, path) from error
            except OSError as error:
                self._raw.close()
                raise StoreUnavailable(
                    f"{side_folder} cannot be made: {error.strerror}", "It must be beside the database"
                ) from error

    def execute(self, statement: Statement[object]) -> list[Row]:
        cursor = self._raw.execute(statement.sql, statement.parameters)
        # a statement that gives no rows is over now; fetching would only take the interpreter's lock once more
        return cursor.fetchall() if cursor.description is not None else []

    def read(self, plan: Plan[T]) -> T:
        try:
            with self._in_use:
                self._make_sure_of_file()
                return run(plan, self.execute)
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    def read_together(self, plan: Plan[T]) -> T:
        """`read`, of one moment, however many statements it takes."""
        try:
            with self._in_use:
                self._raw.execute("begin")
                try:
                    return run(plan, self.execute)
                finally:
                    self._raw.execute("rollback")
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    def write(self, plan: Plan[T]) -> T:
        """Run a plan in a write transaction: all of it, or nothing."""
        with self.transaction():
            return run(plan, self.execute)

    def write_one_statement(self, plan: Plan[T]) -> T:
        """`write` for a plan of one statement: SQLite makes it a transaction by itself, in a third of the calls."""
        with self._in_use:
            try:
                self._make_sure_of_file()
                self._enter_gate()
                return run(plan, self.execute)
            except sqlite3.Error as error:
                raise explained(error, self._path) from error
            finally:
                self._gate.leave()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._in_use:
            try:
                self._make_sure_of_file()
                self._enter_gate()
                self._raw.execute("begin immediate")
                try:
                    yield
                    self._raw.execute("commit")
                except BaseException:
                    if self._raw.in_transaction:
                        self._raw.execute("rollback")
                    raise
            except sqlite3.Error as error:
                raise explained(error, self._path) from error
            finally:
                self._gate.leave()

    def begin(self) -> None:
        """`transaction`, in parts: what comes between this and `end` may be run by any thread."""
        with self._in_use:
            try:
                self._enter_gate()
                self._raw.execute("begin immediate")
            except BaseException as error:
                self._gate.leave()
                if isinstance(error, sqlite3.Error):
                    raise explained(error, self._path) from error
                raise

    def end(self, *, commit: bool) -> None:
        with self._in_use:
            try:
                if commit:
                    self._raw.execute("commit")
            except sqlite3.Error as error:
                raise explained(error, self._path) from error
            finally:
                if self._raw.in_transaction:
                    self._raw.execute("rollback")
                self._gate.leave()

    @property
    def in_transaction(self) -> bool:
        return self._raw.in_transaction

    def change_counter(self) -> int:
        """A number that changes when somebody else commits to the file: cheaper than any look."""
        try:
            with self._in_use:
                self._make_sure_of_file()
                version: int = self._raw.execute("pragma data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise explained(error, self._path) from error
        return version

    def checkpoint(self) -> None:
        """Fold the WAL back as far as that hinders nobody."""
        try:
            with self._in_use:
                self._raw.execute("pragma wal_checkpoint(passive)").fetchall()
        except sqlite3.Error as error:
            raise explained(error, self._path) from error

    @property
    def page_size(self) -> int:
        size: int = self._raw.execute("pragma page_size").fetchone()[0]
        return size

    def give_back(self, pages: int) -> int:
        """Cut off so many free pages from the end of the file, in a short transaction; gives how many that were."""
        with self._in_use:
            try:
                self._enter_gate()
                before = self._raw.execute("pragma freelist_count").fetchone()[0]
                self._raw.execute(f"pragma incremental_vacuum({pages})").fetchall()
                return int(before) - int(self._raw.execute("pragma freelist_count").fetchone()[0])
            except sqlite3.Error as error:
                raise explained(error, self._path) from error
            finally:
                self._gate.leave()

    def close(self) -> None:
        with self._in_use:
            _open_connections.discard(self)
            self._raw.close()
            self._gate.close()

    def _close_inherited(self) -> None:
        """In a forked child. Closing drops nothing of the parent's: its locks are its own, and it still has them."""
        self._gate.forget()
        if hasattr(self, "_raw") and not self._raw.in_transaction:
            self._raw.close()
        else:
            _never_closed.append(self)
            _in_transaction_when_forked.add(self._path)

    def _make_sure_of_file(self) -> None:
        if self._file is None or self._file.is_same():
            return
        if not self._file.is_there:
            raise FileReplaced(
                f"{self._path} was deleted while it was open",
                "What it held is lost; a new one is made by the next enqueue, or by rowcall migrate",
            )
        self._raw.close()
        self._raw = _open(self._path, self._config)
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


def _open(path: str, config: Config) -> sqlite3.Connection:
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise _missing_folder()
    raw = sqlite3.connect(
        path,
        timeout=config.busy_timeout_seconds,
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
    _switch_to_wal(raw, config.busy_timeout_seconds)
    synchronous = "off" if config.in_memory else config.durability
    for setting in (
        f"synchronous = {synchronous}",
        "foreign_keys = on",
        "temp_store = memory",
        f"cache_size = -{CACHE_KIB}",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {WAL_LIMIT_BYTES}",
    ):
        raw.execute(f"pragma {setting}")
    if raw.execute("pragma foreign_keys").fetchone() != (1,):
        raise StoreUnavailable(
            "this build of SQLite has no foreign keys",
            "Use a Python whose sqlite3 module has them: history relies on them",
        )


def _switch_to_wal(raw: sqlite3.Connection, patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    pause = 0.001
    while True:
        try:
            mode = raw.execute("pragma journal_mode").fetchone()[0]
            if mode != "wal":
                mode = raw.execute("pragma journal_mode = wal").fetchone()[0]
        except sqlite3.OperationalError as error:
            # two processes that switch a new file at once are told "locked" without the busy handler being asked
            if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
            continue
        if mode == "wal":
            return
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
# forks while a connection is in use, and the child closes what it inherited before it opens anything.


def _before_fork() -> None:
    for connection in list(_open_connections):
        connection._in_use.acquire()
        _held_while_forking.append(connection)


def _after_fork_in_parent() -> None:
    while _held_while_forking:
        _held_while_forking.pop()._in_use.release()


def _after_fork_in_child() -> None:
    while _held_while_forking:
        connection = _held_while_forking.pop()
        connection._in_use.release()
        connection._close_inherited()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
