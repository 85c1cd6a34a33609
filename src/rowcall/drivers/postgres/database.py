"""The PostgreSQL database of one queue in one process: a pool of connections, and threads for async callers."""

from __future__ import annotations

import atexit
import contextlib
import logging
import math
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.config import Config, shown
from rowcall.domain.errors import Conflict, StoreUnavailable
from rowcall.drivers import forking
from rowcall.drivers.caller.same_database import IdentityQuery, ServerQueueDatabase
from rowcall.drivers.database import Database, MakePlan
from rowcall.drivers.group_commit import NothingWritten
from rowcall.drivers.postgres.connection import (
    Departure,
    OwnConnection,
    PostgresConnection,
    Session,
    connect,
    is_alive,
    is_ours,
    is_pooled,
    opened,
    options_for,
    set_up,
)
from rowcall.drivers.postgres.errors import of_any_driver
from rowcall.drivers.transaction import OpenTransaction
from rowcall.store.jobs.enqueue import Member
from rowcall.store.new_job import Inserted
from rowcall.store.statement import Plan, Row, Statement, fetch

T = TypeVar("T")

MOST_TRIES = 10
LONGEST_PAUSE_SECONDS = 0.2
IDLE_SECONDS = 60.0
SLICE_SECONDS = 0.5
POOL_NAME = "rowcall"
LONGEST_BLOCK_SILENCE_SECONDS = 60
"""After how long without a statement the server ends a `transaction()` block, with its locks."""
VACUUMED = ("ready", "claim", "job", "attempt", "event", "step", "signal", "job_tag", "tally", "total", "history")

_open_databases: weakref.WeakSet[PostgresDatabase] = weakref.WeakSet()


class PostgresDatabase(Database):
    survey_seconds = 5.0
    block_excludes_writers = False
    shows_commits = False
    bulk_pause = 3.0

    def __init__(
        self,
        config: Config,
        enqueue: Callable[[Sequence[Member]], Plan[list[Inserted]]],
        notification: Statement[Row],
    ) -> None:
        assert config.server is not None
        self._server = config.server
        self.name = shown(config.server.url)
        # more than there are connections, so that a caller that waits too long gets an error, sync or async
        self.threads = config.server.pool_size + 32
        self._notification = notification
        home = ServerQueueDatabase(
            "postgresql", self.name, self._own_identity, lambda error: of_any_driver(error, "the caller's connection")
        )
        super().__init__(config, enqueue, home)
        _open_databases.add(self)

    def _reset(self) -> None:
        super()._reset()
        self._opening = threading.Lock()
        self._pool: ConnectionPool[OwnConnection] | None = None
        self._transaction_pool: ConnectionPool[OwnConnection] | None = None
        self._first: list[OwnConnection] = []  # opened for a pool, which has not asked for it yet
        self._departure = Departure()
        # for shared commits, under the lock
        self._writer = PostgresConnection(self._config, self._notification, self._departure)

    @property
    def side_folder(self) -> str:
        """Return a folder that all queues of one user on this host share: the names in it are random."""
        user = os.getuid() if hasattr(os, "getuid") else 0
        return os.path.join(_temporary_folder(), f"rowcall-{user}")

    def connect(self) -> PostgresConnection:
        return PostgresConnection(self._config, self._notification, self._departure, planned=True, hurried=True)

    def connect_to_listen(self) -> OwnConnection | None:
        """Return a connection that can LISTEN, or None behind a pooler that no `listen_url` avoids."""
        raw = connect(self._server.listen_url or self._server.url, self._config, self._departure)
        if is_pooled(raw):
            raw.close()
            return None
        return raw

    def is_left(self, raw: psycopg.Connection[Row]) -> bool:
        """Return whether the server of a connection was left, as it was silent or is no longer the primary."""
        return isinstance(raw, OwnConnection) and raw.is_left

    def read(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        def attempt() -> T:
            with self._session() as session:
                return session.read(plan, snapshot=snapshot, seconds=seconds)

        return self._again(attempt, (NothingWritten,))

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
        raw = self._checked_out(pool)
        try:
            session = Session(raw, self._config, self._notification)
            session.begin(LONGEST_BLOCK_SILENCE_SECONDS)
        except BaseException:
            pool.putconn(raw)
            raise
        return OpenTransaction(session, lambda: pool.putconn(raw))

    def _again(
        self, attempt: Callable[[], T], errors: tuple[type[StoreUnavailable], ...] = (Conflict, NothingWritten)
    ) -> T:
        """Repeat after conflicts, and after connections that were lost before the commit."""
        for tries in range(1, MOST_TRIES):
            try:
                return attempt()
            except errors:
                SYSTEM_CLOCK.sleep(SYSTEM_CLOCK.chance() * min(0.002 * 2**tries, LONGEST_PAUSE_SECONDS))
        return attempt()

    def _own_identity(self, identity: IdentityQuery) -> Row:
        found: list[Row] = self.read(fetch(identity))
        return found[0]

    def vacuum(self) -> int:
        before = self._size_bytes()
        raw = connect(self._server.url, self._config)
        raw.reply_seconds = math.inf
        try:
            for table in VACUUMED:
                raw.execute(f"vacuum (analyze) {self._config.table_prefix}{table}", prepare=False)
        except psycopg.Error as error:
            raise of_any_driver(error, self.name) from error
        finally:
            raw.close()
        return max(0, before - self._size_bytes())

    def _size_bytes(self) -> int:
        names = [f"{self._config.table_prefix}{table}" for table in VACUUMED]
        sizes = " + ".join(f"coalesce(pg_total_relation_size(to_regclass('{name}')), 0)" for name in names)
        found: list[int] = self.read(fetch(Statement(f"select {sizes}", (), lambda row: int(str(row[0])))))
        return found[0]

    def close(self) -> None:
        with self._lock, self._opening:
            pools = [pool for pool in (self._pool, self._transaction_pool) if pool is not None]
            self._pool = self._transaction_pool = None
            self._writer.close()
            self._shut_down_executors()
        for pool in pools:
            pool.close()
        while self._first:
            self._first.pop().close()

    @contextlib.contextmanager
    def _session(self) -> Iterator[Session]:
        pool = self._opened()
        raw = self._checked_out(pool)
        try:
            yield Session(raw, self._config, self._notification)
        finally:
            pool.putconn(raw)

    def _checked_out(self, pool: ConnectionPool[OwnConnection]) -> OwnConnection:
        """Return a connection that was not cut while it was idle, and does not lead to a server that was left."""
        deadline = SYSTEM_CLOCK.timer() + self._config.busy_timeout_seconds
        while True:
            remaining = max(0.0, deadline - SYSTEM_CLOCK.timer())
            try:
                raw = pool.getconn(min(remaining, SLICE_SECONDS))
            except PoolTimeout:
                # all are busy, or the server is away; the pool does not say which, but this raises if it is away
                asked_at = SYSTEM_CLOCK.timer()
                connect(self._server.url, self._config).close()
                now = SYSTEM_CLOCK.timer()
                if now - asked_at > SLICE_SECONDS:  # it was away until now, so no connection could be returned
                    deadline = max(deadline, now + SLICE_SECONDS)
                if now < deadline:
                    continue
                raise self._exhausted() from None
            except PoolClosed:
                raise StoreUnavailable(f"{self.name}: the queue is being closed") from None
            if is_alive(raw):
                return raw
            raw.close()
            pool.putconn(raw)

    def _exhausted(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.name}: all {self._server.pool_size} connections of this process were busy"
            f" for {self._config.busy_timeout_seconds:g} s",
            "Raise pool_size or busy_timeout",
        )

    def _opened(self) -> ConnectionPool[OwnConnection]:
        pool = self._pool
        if pool is not None:
            return pool
        with self._opening:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def _new_pool(self) -> ConnectionPool[OwnConnection]:
        # the pool would try for a while before it raises an error, so its first connection is opened here
        self._first.append(connect(self._server.url, self._config, self._departure, planned=True))
        return ConnectionPool(
            self._server.url,
            connection_class=cast("type[OwnConnection]", SimpleNamespace(connect=self._next_connection)),
            kwargs=options_for(self._server.url, self._config),
            min_size=0,
            max_size=self._server.pool_size,
            max_idle=IDLE_SECONDS,
            reconnect_timeout=0,  # its growing pauses would last long after the end of an outage
            name=POOL_NAME,
            open=True,
        )

    def _next_connection(self, url: str, **options: Any) -> OwnConnection:
        """Return a connection for a pool."""
        with contextlib.suppress(IndexError):
            return self._first.pop()
        raw = opened(url, self._config, options)
        raw.departure = self._departure
        try:
            set_up(raw, self._config, planned=True)
        except BaseException:
            raw.close()
            raise
        return raw

    def _write_members(self, members: list[Member]) -> list[Inserted]:
        if len(members) > 1:
            return self._writer.write(self._enqueue(members))
        return self._again(lambda: self._writer.write(self._enqueue(members), one_statement=True))

    def _after_fork(self) -> None:
        """In the child: the sockets belong to the parent. psycopg does not touch them there; start with new ones."""
        for pool in (self._pool, self._transaction_pool):
            if pool is not None:
                pool._closed = True  # otherwise its end in the child would wait for threads that only the parent has
        _inherited.append((self._pool, self._transaction_pool, self._executors, self._writer, self._first))
        self._reset()


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:  # a container in which no folder is writable
        return os.path.join(os.sep, "nonexistent")


_owner = os.getpid()
_inherited: list[object] = []


def _reset_after_fork() -> None:
    forking.each(list(_open_databases), PostgresDatabase._after_fork)


def _close_all() -> None:
    if os.getpid() != _owner:
        return
    for database in list(_open_databases):
        database.close()


class _WithoutOurPools(logging.Filter):
    """Drop what the pool logs about Rowcall's connections: Rowcall raises or logs it itself, once."""

    def filter(self, record: logging.LogRecord) -> bool:
        subjects = record.args if isinstance(record.args, tuple) else ()
        return not any(argument == POOL_NAME or is_ours(argument) for argument in subjects)


logging.getLogger("psycopg.pool").addFilter(_WithoutOurPools())
atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
