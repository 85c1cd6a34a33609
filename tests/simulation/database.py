"""SQLite in memory, real, with a point of the schedule before each statement and after each commit."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any
from unittest import mock

from rowcall import Rowcall
from rowcall.domain.config import Config
from rowcall.drivers.database import Database
from rowcall.drivers.sqlite import connection as connection_module
from rowcall.drivers.sqlite.connection import SqliteConnection, open_file
from rowcall.drivers.sqlite.database import SqliteDatabase, memory_file
from rowcall.queue import OpenDatabase
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.enqueue import enqueue_members
from rowcall.store.sqlite.dialect import SqliteDialect
from rowcall.store.statement import ReadTime, Row
from tests.crash.storm.journal import install
from tests.observe.plain_sql import PlainSqlite
from tests.simulation.kernel import Machine
from tests.simulation.monitor import Ask
from tests.simulation.primitives import own_process, scheduler

Committed = Callable[[Ask], None]


class PooledConnection(sqlite3.Connection):
    """Goes back to its pool when it is closed: opening one and preparing its statements takes long."""

    pool: list[PooledConnection]
    lent = False
    times_lent = 0
    checked_changes = 0
    """How many rows it had changed when all was checked after a commit."""

    def close(self) -> None:
        if self.lent:
            self.lent = False
            if self.in_transaction:
                self.rollback()
            self.set_progress_handler(None, 0)
            self.pool.append(self)

    def close_for_good(self) -> None:
        super().close()


class Lent:
    """A connection of a process, until it is closed: then another process may have it."""

    def __init__(self, raw: PooledConnection) -> None:
        self._raw = raw
        self._number = raw.times_lent

    @property
    def in_transaction(self) -> bool:
        return self._raw.times_lent == self._number and self._raw.in_transaction

    def close(self) -> None:
        if self._raw.times_lent == self._number:
            self._raw.close()


class MemoryFile:
    """The database of all worlds: its tables are emptied before each of them."""

    def __init__(self) -> None:
        self.path = memory_file()
        self.url = f"sqlite:///{self.path}"
        with Rowcall(self.url) as jobs:
            jobs.migrate()
        with _locking_in_process():
            self.plain = PlainSqlite(self.url)
        install(self.plain)
        self._pool: list[PooledConnection] = []
        tables = [str(name) for (name,) in self.plain.ask("select name from sqlite_master where type = 'table'")]
        self._kept = {table: self.plain.ask(f"select * from {table}") for table in tables if table != "sqlite_sequence"}

    def empty(self) -> None:
        """Leave what a new database has."""
        ask = self.plain.ask
        ask("pragma foreign_keys = off")
        ask("begin immediate")
        for table in sorted(self._kept):  # those of the storm last: triggers write to them
            ask(f"delete from {table}")
        ask("delete from sqlite_sequence")
        for table, rows in self._kept.items():
            for row in rows:
                marks = ", ".join("?" for _ in row)
                self.plain._connection.execute(f"insert into {table} values ({marks})", row)
        ask("commit")
        ask("pragma wal_checkpoint(truncate)")
        for folder in (f"{self.path}-rowcall", f"{self.path}-blobs"):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder, mode=0o700)

    def connect(self, path: str, config: Config) -> PooledConnection:
        if self._pool:
            raw = self._pool.pop()
        else:
            with _locking_in_process(PooledConnection):
                opened = open_file(path, config)
            assert isinstance(opened, PooledConnection)
            opened.execute("pragma secure_delete = off")
            raw = opened
            raw.pool = self._pool
        raw.lent = True
        raw.times_lent += 1
        lent = Lent(raw)
        own_process().connections.append(lent)
        own_process().at_death.append(lent.close)
        return raw

    def close(self) -> None:
        for raw in self._pool:
            raw.close_for_good()
        self.plain.close()
        shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)


@contextmanager
def _locking_in_process(factory: type[sqlite3.Connection] = sqlite3.Connection) -> Iterator[None]:
    """Let SQLite lock files among the connections of this process only: without system calls."""
    connect = partial(sqlite3.connect, factory=factory, uri=True)

    def connected(path: str, **options: Any) -> sqlite3.Connection:
        return connect(f"file:{path}?vfs=unix-excl", **options)

    with mock.patch.object(sqlite3, "connect", connected):
        yield


class SimulatedConnection(SqliteConnection):
    """A connection of a simulated process."""

    machine: Machine
    committed: Committed

    def _call(self, sql: str, parameters: Any = ()) -> list[Row]:
        if sql == "pragma data_version":  # it follows a wait, which is as good a place for others to run
            return super()._call(sql, parameters)
        world, raw = scheduler(), self._raw
        assert isinstance(raw, PooledConnection)
        world.point(sql)
        if (refused := self.machine.refused) is not None:
            self.machine.refused = None
            raise refused
        commits = sql == "commit" or (not raw.in_transaction and _writes(sql))
        if commits:
            self.machine.note_write()
        rows = super()._call(sql, parameters)
        if commits and not raw.in_transaction:
            if sql.lstrip().startswith("update rowcall_worker set heartbeats"):
                self.machine.note_heartbeat([value for value in parameters if isinstance(value, str)])
            elif raw.total_changes != raw.checked_changes:
                raw.checked_changes = raw.total_changes
                self.committed(raw.execute)
            world.point("committed")
        return rows


@cache
def _writes(sql: str) -> bool:
    """Return whether a statement writes: one that begins with `with` may only read."""
    word = sql.split(None, 1)[0].lower()
    return word not in _READS and (word != "with" or re.search(r"\b(insert|update|delete)\b", sql) is not None)


_READS = frozenset({"select", "pragma", "begin", "rollback"})


class SimulatedDatabase(SqliteDatabase):
    machine: Machine
    committed: Committed

    def connect(self) -> SimulatedConnection:
        return self._simulated(watchful=True)

    def _connect(self) -> SimulatedConnection:
        return self._simulated(watchful=False)

    def _simulated(self, *, watchful: bool) -> SimulatedConnection:
        connection = SimulatedConnection(self._config, self.path, self.side_folder, watchful=watchful)
        connection.machine, connection.committed = self.machine, self.committed
        return connection

    def was_replaced(self) -> bool:
        return False


def opener(machine: Machine, committed: Committed) -> OpenDatabase:
    def open_database(config: Config, now_ms: ReadTime) -> tuple[Dialect, Database]:
        dialect = SqliteDialect(config.table_prefix, now_ms)
        database = SimulatedDatabase(config, partial(enqueue_members, dialect))
        database.machine, database.committed = machine, committed
        return dialect, database

    return open_database


@contextmanager
def pooled(file: MemoryFile) -> Iterator[None]:
    with mock.patch.object(connection_module, "open_file", file.connect):
        yield
