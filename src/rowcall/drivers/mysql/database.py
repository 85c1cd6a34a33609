"""The MariaDB or MySQL database of one queue in one process: a pool of connections, and threads for async callers."""

from __future__ import annotations

import atexit
import contextlib
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pymysql

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.config import Config, shown
from rowcall.domain.errors import Conflict
from rowcall.drivers import forking
from rowcall.drivers.caller.same_database import IdentityQuery, ServerQueueDatabase
from rowcall.drivers.database import Database, MakePlan
from rowcall.drivers.group_commit import NothingWritten
from rowcall.drivers.host_notification_file import NotificationFiles
from rowcall.drivers.mysql.connection import MysqlConnection, MysqlSession, connect, options_of, pauses
from rowcall.drivers.mysql.errors import of_any_driver
from rowcall.drivers.mysql.pool import MysqlPool
from rowcall.drivers.transaction import OpenTransaction
from rowcall.store.jobs.enqueue import Member
from rowcall.store.new_job import Inserted
from rowcall.store.statement import Plan, Row, fetch, plain

T = TypeVar("T")

VACUUMED = ("ready", "claim", "job", "attempt", "event", "step", "signal", "job_tag", "tally", "total", "history")

_open_databases: weakref.WeakSet[MysqlDatabase] = weakref.WeakSet()


class MysqlDatabase(Database):
    survey_seconds = 5.0
    block_excludes_writers = False
    shows_commits = False
    bulk_pause = 3.0

    def __init__(self, config: Config, enqueue: Callable[[Sequence[Member]], Plan[list[Inserted]]]) -> None:
        assert config.server is not None
        self._server = config.server
        self.name = shown(config.server.url)
        # more than there are connections, so that a caller that waits too long gets an error, sync or async
        self.threads = config.server.pool_size + 32
        name = f"{options_of(config.server.url)['database']}/{config.table_prefix}"
        self.notification_files = files = NotificationFiles(self.side_folder, name)
        self._notify = lambda of_jobs: files.notify(of_jobs=of_jobs)
        home = ServerQueueDatabase(
            "mysql",
            self.name,
            self._own_identity,
            lambda error: of_any_driver(error, "the caller's connection"),
            "has its own converters, or another character set than utf8mb4; Rowcall needs the standard ones",
            partial(files.notify, of_jobs=True),
        )
        super().__init__(config, enqueue, home)
        _open_databases.add(self)

    def _reset(self) -> None:
        super()._reset()
        self._opening = threading.Lock()
        self._pool: MysqlPool | None = None
        self._transaction_pool: MysqlPool | None = None
        self._writer = MysqlConnection(self._config, self._notify)  # for shared commits, under the lock

    @property
    def side_folder(self) -> str:
        """Return a folder that all queues of one user on this host share: the names in it are random."""
        return os.path.join(tempfile.gettempdir(), f"rowcall-{os.getuid()}")

    def connect(self) -> MysqlConnection:
        return MysqlConnection(self._config, self._notify, hurried=True)

    def read(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        with self._session() as session:
            return session.read(plan, snapshot=snapshot, seconds=seconds)

    def write(self, make_plan: MakePlan[T], *, once: bool = False) -> T:
        def attempt() -> T:
            with self._session() as session:
                return session.write(make_plan())

        return attempt() if once else self._again(attempt)

    def begin(self) -> OpenTransaction:
        """Begin on a connection of a second pool, so that the caller can read on one of the first."""
        return self._again(self._begun)

    def _begun(self) -> OpenTransaction:
        with self._opening:
            pool = self._transaction_pool = self._transaction_pool or self._new_pool()
        raw = pool.take()
        try:
            session = MysqlSession(raw, self._config, self._notify)
            session.begin()
        except BaseException:
            pool.give_back(raw)
            raise
        return OpenTransaction(session, lambda: pool.give_back(raw))

    def _again(self, attempt: Callable[[], T]) -> T:
        """Repeat after conflicts, and after connections that were lost before the commit."""
        for pause in pauses():
            try:
                return attempt()
            except (Conflict, NothingWritten):
                SYSTEM_CLOCK.sleep(pause)
        return attempt()

    def _own_identity(self, identity: IdentityQuery) -> Row:
        found: list[Row] = self.read(fetch(identity))
        return found[0]

    @contextlib.contextmanager
    def _session(self) -> Iterator[MysqlSession]:
        with self._opening:
            pool = self._pool = self._pool or self._new_pool()
        raw = pool.take()
        try:
            yield MysqlSession(raw, self._config, self._notify)
        finally:
            pool.give_back(raw)

    def _new_pool(self) -> MysqlPool:
        def open_one() -> pymysql.Connection:
            return connect(self._server.url, self._config)

        return MysqlPool(open_one, self._server.pool_size, self.name, self._config.busy_timeout_seconds)

    def vacuum(self) -> int:
        names = ", ".join(f"{self._config.table_prefix}{table}" for table in VACUUMED)
        self.read(fetch(plain(f"optimize table {names}")))
        return 0  # the servers do not say how much

    def close(self) -> None:
        with self._lock, self._opening:
            pools = [pool for pool in (self._pool, self._transaction_pool) if pool is not None]
            self._pool = self._transaction_pool = None
            self._writer.close()
            self._shut_down_executors()
        for pool in pools:
            pool.close()

    def _write_members(self, members: list[Member]) -> list[Inserted]:
        return self._again(lambda: self._writer.write(self._enqueue(members), one_statement=len(members) == 1))

    def _after_fork(self) -> None:
        """In the child: the sockets belong to the parent. Keep them, as their end would end the parent's sessions."""
        _inherited.append((self._pool, self._transaction_pool, self._executors, self._writer))
        self._reset()


_owner = os.getpid()
_inherited: list[object] = []


def _reset_after_fork() -> None:
    forking.each(list(_open_databases), MysqlDatabase._after_fork)


def _close_all() -> None:
    if os.getpid() != _owner:
        return
    for database in list(_open_databases):
        database.close()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_reset_after_fork)
