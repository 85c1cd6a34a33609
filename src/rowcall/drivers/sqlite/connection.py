"""One of Rowcall's own SQLite connections: runs plans in transactions, and waits for locks."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.base.effects import drive
from rowcall.domain.config import Config
from rowcall.domain.errors import FileReplaced, StoreUnavailable
from rowcall.drivers import forking
from rowcall.drivers.side_files import make_folder
from rowcall.drivers.sqlite import fork_hooks
from rowcall.drivers.sqlite.errors import DiskFull, explained, is_wal_missing, wal_deleted
from rowcall.drivers.sqlite.write_gate import WriteGate
from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")

logger = logging.getLogger("rowcall")

FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.001, 0.05
READ_SECONDS = 0.005
STEPS_BETWEEN_CHECKS = 20_000  # of SQLite's virtual machine: about a millisecond
OLDEST_SQLITE = (3, 35, 0)
CACHE_KIB = 2048  # a larger cache is no faster: the kernel caches the file too
CHECKPOINT_PAGES = 1000
WAL_LIMIT_BYTES = 32 * 1024 * 1024
TRUSTED_SECONDS = 0.1

_never_closed: list[SqliteConnection] = []
_in_transaction_when_forked: set[str] = set()


class SqliteConnection:
    """Used by one thread at a time."""

    times_opened = 1

    def __init__(self, config: Config, path: str, side_folder: str, *, watchful: bool = False) -> None:
        """A `watchful` connection raises `FileReplaced` when its file was deleted or replaced, and opens it again."""
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreUnavailable(
                f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is required",
                "Use a newer Python or system SQLite",
            )
        self._path = path
        self._config = config
        self._file: SameFile | None = None
        self._gate = WriteGate(side_folder, config.gate_seconds, path)
        self._gate_failure_logged = False
        self._explaining = _Explaining(path)
        # held during each call of SQLite, and at no other time: a fork waits for it (see fork_hooks)
        self._in_use = threading.RLock()
        self._interruptible = False
        self._read_until: float | None = None
        self._interrupting = threading.Lock()
        self._raw: sqlite3.Connection
        with forking.lock:
            fork_hooks.open_connections.add(self)
        try:
            with self._explaining:
                self._open()
            self._file = SameFile(path) if watchful else None
            make_folder(side_folder, path)
        except OSError as error:
            self.close()
            raise StoreUnavailable(
                f"{side_folder} cannot be created: {error.strerror}", "It must be next to the database"
            ) from error

    def execute(self, statement: Statement[object]) -> list[Row]:
        return self._call(statement.sql, statement.parameters)

    def _call(self, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Call SQLite. Wait for locks outside the call, so that another thread can fork until then."""
        patience: _Patience | None = None
        while True:
            if fork_hooks.is_pending:
                fork_hooks.wait()
            try:
                with self._in_use:
                    cursor = self._raw.execute(sql, parameters)
                    # a statement without rows is done now; fetching would only take the interpreter's lock again
                    return cursor.fetchall() if cursor.description is not None else []
            except sqlite3.OperationalError as error:
                if self._interruptible and getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
                    if self._is_late():
                        raise StoreUnavailable("the read took too long, and was stopped", "Narrow it down") from None
                    continue  # by a thread that forks: read again afterwards
                patience = patience or _Patience(self._config.busy_timeout_seconds)
                patience.wait_after(error)

    def read(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        """Run a plan that only reads. With `snapshot`, all statements see the same state of the database.

        If it takes longer than `seconds`, it is stopped: a long read keeps the WAL from being copied back.
        """
        with self._explaining:
            self._check_file()
            if not snapshot:
                return self._read(plan, seconds)
            self._call("begin")
            try:
                return self._read(plan, seconds)
            finally:
                self._undo()

    def _read(self, plan: Plan[T], seconds: float | None) -> T:
        self._interruptible = True
        if seconds is not None:
            self._read_until = SYSTEM_CLOCK.timer() + seconds
            self._raw.set_progress_handler(self._is_late, STEPS_BETWEEN_CHECKS)
        try:
            return drive(plan, self.execute)
        finally:
            if seconds is not None:
                self._raw.set_progress_handler(None, 0)
                self._read_until = None
            with self._interrupting:
                self._interruptible = False

    def _is_late(self) -> bool:
        return self._read_until is not None and SYSTEM_CLOCK.timer() > self._read_until

    def write(self, plan: Plan[T], *, one_statement: bool = False) -> T:
        """Run a plan in a write transaction: all of it, or nothing."""
        if not one_statement:
            with self.transaction():
                return drive(plan, self.execute)
        try:  # to SQLite, one statement is a transaction, in a third of the calls
            self._check_file()
            self._enter_gate()
            return drive(plan, self.execute)
        except sqlite3.Error as error:
            found = explained(error, self._path)
            self._make_room(found)
            raise found from error
        finally:
            self._gate.leave()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self.begin()
            try:
                with self._explaining:
                    yield
            except BaseException:
                self.roll_back()
                raise
            self.commit()
        except DiskFull as error:
            self._make_room(error)
            raise

    def begin(self) -> None:
        """Begin a write transaction. Until `commit` or `roll_back`, any thread may call `run`."""
        try:
            with self._explaining:
                self._check_file()
                self._enter_gate()
                self._call("begin immediate")
        except BaseException:
            self._gate.leave()
            raise

    def run(self, plan: Plan[T]) -> T:
        if not self._raw.in_transaction:  # SQLite itself rolls back when the disk is full, for example
            plan.close()
            raise StoreUnavailable("SQLite has already rolled the transaction back", "Begin another one")
        with self._explaining:
            return drive(plan, self.execute)

    def commit(self) -> None:
        try:
            if not self._raw.in_transaction:
                raise StoreUnavailable("SQLite has already rolled the transaction back", "Nothing was written")
            with self._explaining:
                self._call("commit")
        finally:
            self.roll_back()

    def roll_back(self) -> None:
        try:
            if self._raw.in_transaction:
                self._undo()
        finally:
            self._gate.leave()

    def _undo(self) -> None:
        """End a transaction without its writes. Raise no error of that: the caller has a more important one."""
        try:
            self._call("rollback")
        except sqlite3.Error:
            with self._in_use:
                self._raw.close()  # rolls back
            self._open()

    def interrupt(self) -> None:
        """Do nothing: in a transaction, no statement waits for a lock. The only one was taken by `begin`."""

    def change_counter(self) -> int:
        """Return a number that changes when another connection commits to the file; cheaper than any query."""
        with self._explaining:
            self._check_file()
            return self._number("data_version")

    def checkpoint(self) -> None:
        """Copy the WAL back into the file, as far as this blocks no one."""
        with self._explaining:
            self._call("pragma wal_checkpoint(passive)")

    def _make_room(self, error: Exception) -> None:
        """On a disk that its own WAL has filled, copy it back and cut it off. The next write can succeed then."""
        if isinstance(error, DiskFull):
            with contextlib.suppress(sqlite3.Error), self._in_use:
                error.made_room = self._raw.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0

    @property
    def page_size(self) -> int:
        with self._explaining:
            return self._number("page_size")

    def shrink(self, pages: int) -> int:
        """Cut at most this many free pages off the end of the file, in a short transaction. Return how many it cut."""
        with self._explaining:
            try:
                self._enter_gate()
                before = self._number("freelist_count")
                self._call(f"pragma incremental_vacuum({pages})")
                return before - self._number("freelist_count")
            finally:
                self._gate.leave()

    def _number(self, pragma: str) -> int:
        return int(str(self._call(f"pragma {pragma}")[0][0]))

    def close(self) -> None:
        with self._in_use:
            self._raw.close()
        self._gate.close()
        with forking.lock:
            fork_hooks.open_connections.discard(self)

    def hold(self) -> None:
        """Before a fork: wait until no thread is inside SQLite with this connection. A long read starts over."""
        while not self._in_use.acquire(timeout=READ_SECONDS):
            with self._interrupting:
                if self._interruptible:
                    self._raw.interrupt()

    def let_go(self) -> None:
        self._in_use.release()

    @property
    def is_in_transaction(self) -> bool:
        try:
            return self._raw.in_transaction
        except (AttributeError, sqlite3.ProgrammingError):  # not opened yet, or closed
            return False

    def dispose(self, *, permitted: bool) -> None:
        """In a forked child. Closing drops none of the parent's locks: the kernel keeps them per process."""
        if permitted or not self.is_in_transaction:
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
                    self._raw = open_file(self._path, self._config)
                    return
            except sqlite3.OperationalError as error:
                patience.wait_after(error)

    def _check_file(self) -> None:
        if self._file is None or self._file.is_same():
            return
        if not self._file.exists:
            raise FileReplaced(
                f"{self._path} was deleted while it was open",
                "Its contents are lost; the next enqueue, or rowcall migrate, creates a new file",
            )
        if self._file.lost_only_its_wal:
            raise wal_deleted(self._path)
        with self._in_use:
            self._raw.close()
        self._open()
        self._file = SameFile(self._path)
        raise FileReplaced(f"{self._path} was replaced while it was open", "The new file is now open")

    def _enter_gate(self) -> None:
        if self._path in _in_transaction_when_forked:
            raise StoreUnavailable(
                f"this process was forked inside a transaction on {self._path}, and cannot write to that file",
                "Fork before the transaction, or after it",
            )
        try:
            self._gate.enter()
        except OSError as error:
            if not self._gate_failure_logged:  # the gate only makes waiting fair: SQLite's own lock still protects
                self._gate_failure_logged = True
                logger.warning("cannot open the files next to %s (%s): writers wait less fairly", self._path, error)


class _Explaining:
    """Turn an error of SQLite into Rowcall's. A class, because it is used for every statement of a hot path."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise explained(error, self._path) from error


class _Patience:
    """Wait for the locks of others, as SQLite's own busy handler would."""

    def __init__(self, seconds: float) -> None:
        self._deadline = SYSTEM_CLOCK.timer() + seconds
        self._pause = FIRST_PAUSE_SECONDS

    def wait_after(self, error: sqlite3.OperationalError) -> None:
        """Pause before the next attempt, or raise the error if another attempt cannot help."""
        remaining = self._deadline - SYSTEM_CLOCK.timer()
        if remaining <= 0 or not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY"):
            raise error
        SYSTEM_CLOCK.sleep(min(self._pause, remaining))
        self._pause = min(self._pause * 2, LAST_PAUSE_SECONDS)


def open_file(path: str, config: Config) -> sqlite3.Connection:
    """Return a connection in autocommit mode that never waits for a lock, or raise `sqlite3.Error`."""
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorname = "SQLITE_CANTOPEN"
        raise error
    # a new WAL would damage the file if processes still use the deleted one
    if is_wal_missing(path):
        raise wal_deleted(path)
    raw = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256)
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
        "cache_spill = off",  # see fork_hooks
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


class SameFile:
    """Checks that a path still leads to the file that was opened by it. Asked before each use; asks the file system now
    and then.

    SQLite continues with a file that was deleted or replaced, and no one else sees what it writes then. The WAL belongs
    to the file: while a connection is open, SQLite neither deletes nor replaces it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._known = _identity(path)
        self._wal = _identity(f"{path}-wal")
        self._trusted_until = SYSTEM_CLOCK.timer() + TRUSTED_SECONDS

    @property
    def exists(self) -> bool:
        return _identity(self._path) is not None

    @property
    def lost_only_its_wal(self) -> bool:
        return _identity(self._path) == self._known

    def is_same(self) -> bool:
        if self._wal is None:  # SQLite makes it when the file is first read
            self._wal = _identity(f"{self._path}-wal")
        now = SYSTEM_CLOCK.timer()
        if now < self._trusted_until:
            return True
        if _identity(self._path) != self._known or self._wal not in (None, _identity(f"{self._path}-wal")):
            return False
        self._trusted_until = now + TRUSTED_SECONDS
        return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
