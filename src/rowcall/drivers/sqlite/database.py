"""The SQLite file of one queue in one process: its connections, and threads for async callers."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import TypeVar

from rowcall.domain.config import Config
from rowcall.drivers import forking
from rowcall.drivers.caller.same_database import SqliteQueueDatabase
from rowcall.drivers.database import Database, MakePlan
from rowcall.drivers.sqlite.connection import SameFile, SqliteConnection
from rowcall.drivers.sqlite.errors import DiskFull, wal_deleted
from rowcall.drivers.transaction import OpenTransaction
from rowcall.store.jobs.enqueue import Member
from rowcall.store.new_job import Inserted
from rowcall.store.statement import Plan

T = TypeVar("T")

logger = logging.getLogger("rowcall")

MOST_IDLE_READERS = 4
VACUUMED_PAGES = 200

_open_databases: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()


class SqliteDatabase(Database):
    survey_seconds = 2.0
    block_excludes_writers = True
    shows_commits = True
    bulk_pause = 5.0

    def __init__(
        self,
        config: Config,
        enqueue: Callable[[Sequence[Member]], Plan[list[Inserted]]],
    ) -> None:
        self.path = self.name = os.path.realpath(config.path) if not config.in_memory else memory_file()
        super().__init__(config, enqueue, SqliteQueueDatabase(self.path))
        _open_databases.add(self)

    def _reset(self) -> None:
        super()._reset()
        self._writer: SqliteConnection | None = None
        self._readers: list[SqliteConnection] = []
        self._checkpointer: SqliteConnection | None = None
        self._checkpointed = -1
        self._file: SameFile | None = None

    @property
    def side_folder(self) -> str:
        return f"{self.path}-rowcall"

    def connect(self) -> SqliteConnection:
        return SqliteConnection(self._config, self.path, self.side_folder, watchful=True)

    def _connect(self) -> SqliteConnection:
        """Return a connection that this object keeps; `was_replaced` closes all of them together."""
        connection = SqliteConnection(self._config, self.path, self.side_folder)
        if self._file is None:
            self._file = SameFile(self.path)
        return connection

    def was_replaced(self) -> bool:
        file = self._file
        if file is None or file.is_same():
            return False
        if file.lost_only_its_wal:
            raise wal_deleted(self.path)
        logger.warning("%s was deleted or replaced while it was open: opening it again", self.path)
        self.close()
        return True

    def read(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        readers = self._readers
        connection = _popped(readers) or self._connect()
        try:
            return connection.read(plan, snapshot=snapshot, seconds=seconds)
        finally:
            self._put_back(connection, readers)

    def read_within(self, read: Callable[[], T], seconds: float) -> T:
        return read()  # a file always replies

    def _put_back(self, connection: SqliteConnection, readers: list[SqliteConnection]) -> None:
        if readers is self._readers and len(readers) < MOST_IDLE_READERS:
            readers.append(connection)
        else:  # there are enough, or the queue was closed since
            connection.close()

    def begin(self) -> OpenTransaction:
        """Begin on a connection that otherwise reads: all threads share the writer, for short transactions."""
        readers = self._readers
        connection = _popped(readers) or self._connect()
        try:
            connection.begin()
        except BaseException:
            self._put_back(connection, readers)
            raise
        return OpenTransaction(connection, lambda: self._put_back(connection, readers))

    def write(self, make_plan: MakePlan[T], *, once: bool = False) -> T:
        with self._lock:
            return self._write(make_plan)

    def checkpoint(self) -> None:
        """Copy the WAL back if anything was committed since: otherwise some commit must do it, and takes longer."""
        if self._checkpointer is None:
            self._checkpointer = self._connect()
        counter = self._checkpointer.change_counter()
        if counter != self._checkpointed:
            self._checkpointed = counter
            self._checkpointer.checkpoint()

    def vacuum(self) -> int:
        return self.shrink(lambda: False)

    def shrink(self, stopped: Callable[[], bool]) -> int:
        connection = self.connect()
        try:
            freed = 0
            while not stopped() and (pages := connection.shrink(VACUUMED_PAGES)):
                freed += pages
            return freed * connection.page_size
        finally:
            connection.close()

    def close(self) -> None:
        """Close every connection. The next use opens new ones."""
        with self._lock:
            readers, self._readers = self._readers, []
            kept = (self._writer, self._checkpointer)
            connections = [*readers, *(connection for connection in kept if connection is not None)]
            self._writer = self._checkpointer = self._file = None
            for connection in connections:
                connection.close()
            self._shut_down_executors()

    def _writing(self) -> SqliteConnection:
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def _write_members(self, members: list[Member]) -> list[Inserted]:
        return self._write(lambda: self._enqueue(members), one_statement=len(members) == 1)

    def _write(self, make_plan: MakePlan[T], *, one_statement: bool = False) -> T:
        try:
            return self._writing().write(make_plan(), one_statement=one_statement)
        except DiskFull as error:
            if not error.made_room:
                raise
        return self._writing().write(make_plan())


def _popped(connections: list[SqliteConnection]) -> SqliteConnection | None:
    try:
        return connections.pop()
    except IndexError:
        return None


def _reset_after_fork() -> None:
    forking.each(list(_open_databases), SqliteDatabase._reset)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def memory_file() -> str:
    """Return a private file for `:memory:`. SQLite's own has no WAL, and no fair locks between connections."""
    folder = tempfile.mkdtemp(prefix="rowcall-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return os.path.join(folder, "memory.db")
