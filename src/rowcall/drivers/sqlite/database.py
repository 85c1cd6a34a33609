"""The SQLite file of one queue in one process: its connections, its write lock, its threads for async callers."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from rowcall.domain.config import Config
from rowcall.drivers import forking
from rowcall.drivers.caller.connection import Loan, Whereabouts
from rowcall.drivers.caller.guards import SqliteGuard
from rowcall.drivers.caller.kinds import Lender
from rowcall.drivers.database import MakePlan
from rowcall.drivers.group_commit import Entry, GroupCommit
from rowcall.drivers.runner import run
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.drivers.sqlite.errors import explained
from rowcall.drivers.sqlite.file_identity import SameFile
from rowcall.drivers.sqlite.transaction import SqliteTransaction
from rowcall.store.statement import Plan

T = TypeVar("T")
M = TypeVar("M")
E = TypeVar("E")

logger = logging.getLogger("rowcall")

MOST_IDLE_READERS = 4
VACUUMED_PAGES = 200

_open_databases: weakref.WeakSet[SqliteDatabase[Any, Any]] = weakref.WeakSet()


class SqliteDatabase(Generic[M, E]):
    """Opens when it is first used. Members of a shared commit that are `alike` are written by one plan."""

    survey_seconds = 0.5
    one_writer = True

    def __init__(
        self,
        config: Config,
        plan_of_one: Callable[[M], Plan[E]],
        plan_of_many: Callable[[Sequence[M]], Plan[list[E]]],
        alike: Callable[[M], object],
    ) -> None:
        self._config = config
        self._plan_of_one = plan_of_one
        self._plan_of_many = plan_of_many
        self._alike = alike
        self._path = os.path.realpath(config.path) if not config.in_memory else _memory_file()
        self._lender = Lender(SqliteGuard(self._path))
        self._start_afresh()
        _open_databases.add(self)

    def _start_afresh(self) -> None:
        self._lock = threading.Lock()
        self.setup_lock = threading.Lock()
        self._writer: SqliteConnection | None = None
        self._readers: list[SqliteConnection] = []
        self._tidier: SqliteConnection | None = None
        self._tidied = -1
        self._file: SameFile | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._reading_threads: ThreadPoolExecutor | None = None
        self._group: GroupCommit[M, E] = GroupCommit(self._lock, self._commit, self._executor)

    @property
    def name(self) -> str:
        return self._path

    @property
    def path(self) -> str:
        return self._path

    @property
    def side_folder(self) -> str:
        """The folder beside the file for locks that only the kernel can keep."""
        return f"{self._path}-rowcall"

    def connect(self) -> SqliteConnection:
        """A connection for one thread's own use; that thread closes it."""
        return SqliteConnection(self._config, self._path, self.side_folder, watchful=True)

    def _connect(self) -> SqliteConnection:
        """One of those that are kept here, and exchanged together when `was_replaced`."""
        connection = SqliteConnection(self._config, self._path, self.side_folder)
        if self._file is None:
            self._file = SameFile(self._path)
        return connection

    def was_replaced(self) -> bool:
        file = self._file
        if file is None or file.is_same():
            return False
        logger.warning("%s was deleted or replaced while it was open: it is opened anew", self._path)
        self.close()
        return True

    def read(self, plan: Plan[T]) -> T:
        with self._reader() as connection:
            return connection.read(plan)

    def read_together(self, make_plan: MakePlan[T]) -> T:
        with self._reader() as connection:
            return connection.read_together(make_plan())

    @contextlib.contextmanager
    def _reader(self) -> Iterator[SqliteConnection]:
        readers = self._readers
        connection = _popped(readers) or self._connect()
        try:
            yield connection
        finally:
            self._put_back(connection, readers)

    def _put_back(self, connection: SqliteConnection, readers: list[SqliteConnection]) -> None:
        if readers is self._readers and len(readers) < MOST_IDLE_READERS:
            readers.append(connection)
        else:  # there are enough, or the queue was closed meanwhile
            connection.close()

    def begin(self) -> SqliteTransaction:
        """On a connection that otherwise reads: the one that writes is for the short transactions of all threads."""
        readers = self._readers
        connection = _popped(readers) or self._connect()
        try:
            connection.begin()
        except BaseException:
            self._put_back(connection, readers)
            raise
        return SqliteTransaction(connection, lambda: self._put_back(connection, readers))

    def read_briefly(self, make_plan: MakePlan[T]) -> T:
        return self.read(make_plan())

    def write(self, make_plan: MakePlan[T], *, once: bool = False) -> T:
        with self._lock:
            return self._writing().write(make_plan())

    async def aread(self, plan: Plan[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading(), self.read, plan)

    async def aread_together(self, make_plan: MakePlan[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading(), self.read_together, make_plan)

    async def awrite(self, make_plan: MakePlan[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor(), self.write, make_plan)

    def write_shared(self, member: M) -> E:
        """Write one member, in a commit that others of this process may share."""
        return self._group.submit(member)

    async def awrite_shared(self, member: M) -> E:
        return await self._group.asubmit(member)

    def lend(self, connection: object, whereabouts: Whereabouts | None) -> Loan:
        return self._lender.lend(connection, whereabouts)

    def tidy(self) -> None:
        """Fold the WAL back if anything was committed since: else some commit has to do it, and takes longer."""
        if self._tidier is None:
            self._tidier = self._connect()
        counter = self._tidier.change_counter()
        if counter != self._tidied:
            self._tidied = counter
            self._tidier.checkpoint()

    def vacuum(self) -> int:
        return self._give_back(lambda: False)

    def give_back(self, stopped: Callable[[], bool]) -> None:
        self._give_back(stopped)

    def _give_back(self, stopped: Callable[[], bool]) -> int:
        connection = self.connect()
        try:
            freed = 0
            while not stopped() and (pages := connection.give_back(VACUUMED_PAGES)):
                freed += pages
            return freed * connection.page_size
        finally:
            connection.close()

    def close(self) -> None:
        """Close every connection. The next use opens anew."""
        with self._lock:
            readers, self._readers = self._readers, []
            kept = (self._writer, self._tidier)
            connections = [*readers, *(connection for connection in kept if connection is not None)]
            self._writer = self._tidier = self._file = None
            for connection in connections:
                connection.close()
            executors = [threads for threads in (self._threads, self._reading_threads) if threads is not None]
            self._threads = self._reading_threads = None
        for executor in executors:
            executor.shutdown(wait=False)

    def _writing(self) -> SqliteConnection:
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def _executor(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(4, thread_name_prefix="rowcall-store")
        return self._threads

    def _reading(self) -> ThreadPoolExecutor:
        """Apart from those that write, which may all be waiting for a transaction whose owner wants to read."""
        if self._reading_threads is None:
            self._reading_threads = ThreadPoolExecutor(4, thread_name_prefix="rowcall-read")
        return self._reading_threads

    def _commit(self, entries: list[Entry[M, E]]) -> None:
        connection = self._writing()
        if len(entries) == 1:
            entry = entries[0]
            entry.result = connection.write_one_statement(self._plan_of_one(entry.member))
            entry.done = True
            return
        groups: dict[object, list[Entry[M, E]]] = {}
        for entry in entries:
            groups.setdefault(self._alike(entry.member), []).append(entry)
        with connection.transaction():
            for group in groups.values():
                self._write_group(connection, group)
        for entry in entries:
            entry.done = True

    def _write_group(self, connection: SqliteConnection, group: list[Entry[M, E]]) -> None:
        try:
            if len(group) == 1:
                results = [run(self._plan_of_one(group[0].member), connection.execute)]
            else:
                results = run(self._plan_of_many([entry.member for entry in group]), connection.execute)
        except (sqlite3.IntegrityError, sqlite3.DataError) as error:
            # only its own statement was undone: the others go on
            if len(group) > 1:
                for entry in group:
                    self._write_group(connection, [entry])
            else:
                group[0].error = explained(error, self._path)
            return
        for entry, result in zip(group, results, strict=True):
            entry.result = result

    def _after_fork(self) -> None:
        """In the child, whose inherited connections are closed by now: begin with new ones, and new locks."""
        self._start_afresh()


def _popped(connections: list[SqliteConnection]) -> SqliteConnection | None:
    try:
        return connections.pop()
    except IndexError:
        return None


def _reset_after_fork() -> None:
    forking.each(list(_open_databases), SqliteDatabase._after_fork)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def _memory_file() -> str:
    """`:memory:` is a private file in memory: SQLite's own has neither a WAL nor fair locks between connections."""
    folder = tempfile.mkdtemp(prefix="rowcall-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return os.path.join(folder, "memory.db")
