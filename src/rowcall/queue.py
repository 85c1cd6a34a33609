"""Queue: what an app has declared, its backend, and the two drivers of operations."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import secrets
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from copy import copy
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, TypeVar

from rowcall.base import effects
from rowcall.base.clock import Clock, SystemClock
from rowcall.base.effects import Effect, Effects
from rowcall.base.times import milliseconds_of
from rowcall.declare.declarations import Declarations
from rowcall.domain.blobs import BlobStore
from rowcall.domain.config import Config, ServerKind
from rowcall.domain.errors import Conflict, InvalidOption, MovedTo, SchemaMismatch, StoreUnavailable, Suspend
from rowcall.drivers.blob_folder import BlobFolder
from rowcall.drivers.blob_table import BlobTable
from rowcall.drivers.blobs import Blobs
from rowcall.drivers.caller.same_database import IdentityQuery
from rowcall.drivers.cipher import Cipher
from rowcall.drivers.database import Database
from rowcall.drivers.patience import UNLIMITED, patience
from rowcall.drivers.sqlite.database import SqliteDatabase
from rowcall.drivers.transaction_block import SharedTransaction, innermost_block, innermost_connection
from rowcall.store.dialect import Dialect, Version
from rowcall.store.jobs.enqueue import enqueue_members
from rowcall.store.moves.state import AWAY, HERE, OPEN, SEALED, SEALING, MoveState, state_of
from rowcall.store.queries.counts import ADD_SETTING, SETTING
from rowcall.store.schema import QUEUE_ID
from rowcall.store.sqlite.dialect import SqliteDialect
from rowcall.store.statement import ReadTime, database_time

T = TypeVar("T")

logger = logging.getLogger("rowcall")

MIGRATION_PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 1.0
"""How long reads may show the database that was left, in a process that does not write."""
FOLLOW_SECONDS, FOLLOW_PAUSE_SECONDS = 30.0, 0.005
"""How long a call waits for the end of the switch, and how often it looks."""
MOST_REPEATED = 3
"""How often a call is repeated: once, unless a move is aborted, and another one begun."""


class ForCallers(NamedTuple):
    """What is needed to run plans on connections of callers."""

    dialect: Dialect
    identity: IdentityQuery | None


class QueueThread(Protocol):
    """Has a thread of this process, which ends when the queue is closed."""

    pid: int

    def close(self) -> None: ...


class Surrounding(Protocol):
    """Knows the transactions that an app's framework opens, and that writes of the queue should join."""

    def find(self) -> object:
        """Return the connection of the open transaction, or None."""

    async def afind(self) -> object: ...


OpenDatabase = Callable[[Config, ReadTime], tuple[Dialect, Database]]


class Parts(NamedTuple):
    config: Config
    dialect: Dialect
    database: Database
    blobs: Blobs


class Backend:
    """The database of a queue, with its configuration and clock. `configure` is called at the first use."""

    def __init__(self, configure: Callable[[], Config], clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.cipher: Cipher | None = None
        self.surrounding: Surrounding | None = None
        self.open_database: OpenDatabase = open_database
        self.open_transactions: set[SharedTransaction] = set()
        self.for_callers: ForCallers | None = None
        self.end_waiter: QueueThread | None = None
        self.at_close: set[Callable[[], None]] = set()
        """Called when the queue is closed, while it can still be used."""
        self.only_reads = False
        """Whether a handler is replayed: what would write ends it."""
        self.last_queue = ""
        """When jobs are claimed by hand, the queue behind this one comes first."""
        self._configure = configure
        self._schema_ready = False
        self._parts: Parts | None = None
        self._opening = threading.Lock()

    # the parts that depend on the configuration, each a plain attribute after its first use

    @cached_property
    def config(self) -> Config:
        return self._open().config

    @cached_property
    def dialect(self) -> Dialect:
        return self._open().dialect

    @cached_property
    def database(self) -> Database:
        return self._open().database

    @cached_property
    def blobs(self) -> Blobs:
        return self._open().blobs

    @property
    def is_open(self) -> bool:
        return self._parts is not None

    def _open(self) -> Parts:
        with self._opening:
            if self._parts is None:
                config = self._configure()
                read_time = database_time if type(self.clock) is SystemClock else self.now_ms
                dialect, database = self.open_database(config, read_time)
                store = config.blobs if config.blobs is not None else _blob_store(config, dialect, database)
                self.cipher = None if config.encrypt is None else Cipher(config.encrypt)
                blobs = Blobs(store, config.blob_threshold, config.payload_limit, self.cipher)
                self._parts = Parts(config, dialect, database, blobs)
            return self._parts

    def now_ms(self) -> int | None:
        """Return the time of a test's clock, or None to use the database's clock."""
        now = self.clock.now()
        return None if now is None else milliseconds_of(now)

    def opened(self, value: T) -> T:
        """Return what a plan has read, decrypted if there are keys."""
        return value if self.cipher is None else self.cipher.opened(value)

    def check_may_write(self) -> None:
        if self.only_reads:
            raise Suspend(None, waits=True)

    def check_outside_block(self) -> None:
        """Refuse a write that would wait for the end of the block that it is in."""
        if self.database.block_excludes_writers and innermost_block(self.database) is not None:
            raise InvalidOption(
                "transaction",
                "SQLite has one writer, and that is the block, which this call cannot join: call it before or after it",
            )

    def close(self) -> None:
        """Close all connections; a later call opens new ones. Open blocks of `transaction()` are rolled back."""
        if not self.is_open:
            return
        for transaction in list(self.open_transactions):
            transaction.close()
        for end in list(self.at_close):
            end()
        waiter, self.end_waiter = self.end_waiter, None
        if waiter is not None and waiter.pid == os.getpid():
            waiter.close()
        self.database.close()

    # the schema

    def ensure_schema(self, patience_seconds: float = MIGRATION_PATIENCE_SECONDS) -> None:
        """Check once per process that the tables are there and of this version, or migrate them."""
        if self.is_schema_ready():
            return
        with self.database.setup_lock:
            if self._schema_ready:
                return
            version = self._try_for(min(patience_seconds, self.config.busy_timeout_seconds), self._version)
            current, newest = version.found, self.dialect.newest_version
            version.require_fit(newest)
            if current < newest and not self.config.auto_migrate:
                raise SchemaMismatch(current, newest, "run: rowcall migrate APP (auto_migrate is off)")
            if current < newest:
                self._migrate(patience_seconds)
            self._tables_are_ready()

    async def aensure_schema(self) -> None:
        if not self.is_schema_ready():
            await asyncio.get_running_loop().run_in_executor(None, self.ensure_schema)

    def migrate(self) -> tuple[int, int]:
        """Make or update the tables; return the version found and the version now."""
        versions = self._migrate(MIGRATION_PATIENCE_SECONDS)
        self._tables_are_ready()
        return versions

    def _tables_are_ready(self) -> None:
        if self.cipher is not None:
            queue_ids = self.database.read(self.dialect.ask(SETTING, QUEUE_ID))
            if not queue_ids:  # someone has emptied the table
                new = secrets.token_hex(16)
                self.database.write(lambda: self.dialect.ask(ADD_SETTING, QUEUE_ID, new))
                queue_ids = self.database.read(self.dialect.ask(SETTING, QUEUE_ID))
            self.cipher.queue_id = queue_ids[0]
        self._schema_ready = True

    def is_schema_ready(self) -> bool:
        if self._schema_ready and self.database.was_replaced():
            self._schema_ready = False
        return self._schema_ready

    def check_schema_again(self) -> None:
        """Read the version of the tables before the next use: someone may have migrated them."""
        self._schema_ready = False

    def explained(self, error: SchemaMismatch) -> SchemaMismatch:
        """Return what to say about tables that a statement did not fit. A newer Rowcall may have changed them."""
        try:
            self._version().require_fit(self.dialect.newest_version)
        except SchemaMismatch as better:
            return better
        except StoreUnavailable:
            return error  # nothing more can be said
        return error

    def _version(self) -> Version:
        return self.database.read(self.dialect.version(), snapshot=True)

    def _migrate(self, patience_seconds: float) -> tuple[int, int]:
        """Try to lock the tables, briefly and repeatedly: others can continue in between."""
        self.check_outside_block()
        with patience(UNLIMITED):
            return self._try_for(
                patience_seconds, lambda: self.database.write(lambda: self.dialect.migrate(), once=True)
            )

    def _try_for(self, patience_seconds: float, attempt: Callable[[], T]) -> T:
        """Repeat an attempt until others have migrated the tables, or use them no longer."""
        deadline = self.clock.timer() + patience_seconds
        while True:
            try:
                return attempt()
            except Conflict as error:
                if self.clock.timer() > deadline:
                    raise StoreUnavailable(
                        f"the tables could not be locked for {patience_seconds:g} s: {error.problem}",
                        "A long transaction is in the way (rowcall doctor names it): end it, or migrate later",
                    ) from error
            self.clock.sleep(0.5 + 0.5 * self.clock.chance())


class Queue:
    """What an app has declared, and the backend that runs it. Nothing is connected before the first use."""

    def __init__(self, configure: Callable[[], Config], clock: Clock | None = None) -> None:
        self.declared = Declarations()
        self.own_backend = Backend(configure, clock)
        self.following: Following | None = None
        """Set where the queue may move to another database."""
        self._backend = self.own_backend

    @property
    def backend(self) -> Backend:
        if self.following is None or self.is_swapped:
            return self._backend
        return self.following.backend

    @backend.setter
    def backend(self, backend: Backend) -> None:
        """Use another one for a while, in a test."""
        self._backend = backend

    @property
    def is_swapped(self) -> bool:
        """Return whether it uses the backend of a test."""
        return self._backend is not self.own_backend

    def settled(self) -> Queue:
        """Return the queue in the database where it is now. That one does not follow it when it moves."""
        if self.following is None or self.is_swapped:
            return self
        self.following.look()
        return self.at(self.following.backend)

    def at(self, backend: Backend) -> Queue:
        """Return the queue in one database, whatever happens to it."""
        queue = copy(self)
        queue.following, queue.own_backend = None, backend
        queue.backend = backend
        return queue

    @property
    def clock(self) -> Clock:
        return self.backend.clock

    @property
    def config(self) -> Config:
        return self.backend.config

    @property
    def dialect(self) -> Dialect:
        return self.backend.dialect

    @property
    def database(self) -> Database:
        return self.backend.database

    @property
    def blobs(self) -> Blobs:
        return self.backend.blobs

    @property
    def is_open(self) -> bool:
        return self.backend.is_open

    def now_ms(self) -> int | None:
        """Return the time of a test's clock, or None to use the database's clock."""
        return self.backend.now_ms()

    def close(self) -> None:
        """Close all connections; a later call opens new ones. Open blocks of `transaction()` are rolled back."""
        self.backend.close()
        if self.following is not None:
            self.following.close()

    def run(self, operation: Operation[T] | Effect[Queue, T]) -> T:
        if self.following is None:
            return effects.run(iter(operation), self)
        with self.following.one_backend():
            return effects.run(iter(operation), self)

    def arun(self, operation: Operation[T] | Effect[Queue, T]) -> Coroutine[Any, Any, T]:
        """`run`, for async code. A cancellation is raised in the operation, which may yield further effects."""
        if self.following is None:
            return effects.arun(iter(operation), self)
        return self.following.arun(effects.arun(iter(operation), self))

    def call(self, make: Callable[[], Operation[T]]) -> T:
        """Run an operation, and again where the queue has moved to in between: nothing was written then."""
        for _ in range(MOST_REPEATED):
            try:
                return self.run(make())
            except MovedTo as error:
                if self.following is None or not self.following.follow(error):
                    raise
        return self.run(make())

    async def acall(self, make: Callable[[], Operation[T]]) -> T:
        """`call`, for async code."""
        for _ in range(MOST_REPEATED):
            try:
                return await self.arun(make())
            except MovedTo as error:
                if self.following is None or self.following.is_in_block:
                    raise
                follow = partial(self.following.follow, error)
                if not await asyncio.get_running_loop().run_in_executor(None, follow):
                    raise
        return await self.arun(make())


class Following:
    """Knows where a queue is that may move: in the database of its URL, or in the one of `moves_to`."""

    def __init__(self, home: Backend, there: Backend) -> None:
        self.home = home
        self._there = there
        self._current = home
        self._used_here: ContextVar[Backend | None] = ContextVar("backend", default=None)
        self._look_at = -math.inf
        self._lock = threading.Lock()

    @property
    def backend(self) -> Backend:
        return self._used_here.get() or self._current

    @contextlib.contextmanager
    def one_backend(self) -> Iterator[None]:
        """Use one database for all that runs inside, so that the plans and the connections fit each other."""
        if self._used_here.get() is not None:
            yield
            return
        self.look()
        token = self._used_here.set(self.home if self.is_in_block else self._current)
        try:
            yield
        finally:
            self._used_here.reset(token)

    async def arun(self, running: Coroutine[Any, Any, T]) -> T:
        """Do what `one_backend` does for a coroutine that has not begun."""
        if self._used_here.get() is not None:
            return await running
        if self._is_to_look():
            await asyncio.get_running_loop().run_in_executor(None, self.look)
        token = self._used_here.set(self.home if self.is_in_block else self._current)
        try:
            return await running
        finally:
            with contextlib.suppress(ValueError):  # it was closed by another task
                self._used_here.reset(token)

    @property
    def is_in_block(self) -> bool:
        """Return whether a transaction is open here in the database that may be left: it cannot move."""
        return self.home.is_open and innermost_connection(self.home.database) is not None

    def look(self) -> None:
        """Find out, once in a while, whether the queue has moved: what only reads would not notice it."""
        if self._is_to_look():
            self._look_at = self.home.clock.timer() + LOOK_SECONDS
            if self._where() is self._there:
                self._arrive()

    def check(self, backend: Backend) -> None:
        """Raise `MovedTo` if the queue has left a database, in which no one can see that it has."""
        self.look()
        if backend is self.home and self._current is not self.home:
            raise MovedTo(backend.database.name)

    def follow(self, error: MovedTo) -> bool:
        """Wait until the queue is open where it has moved to, or where it was. Return whether a call can be repeated.

        `error` says that a database refused the call.
        """
        if self.is_in_block:
            return False
        deadline = self.home.clock.timer() + FOLLOW_SECONDS
        with self._lock:
            while self._current is self.home:
                where = self._where()
                if where is self.home:  # the move was aborted
                    return True
                if where is self._there:
                    self._arrive()
                elif self.home.clock.timer() > deadline:
                    return False
                else:
                    self.home.clock.sleep(FOLLOW_PAUSE_SECONDS)
            return error.database == self.home.database.name  # it may have moved on from there

    def close(self) -> None:
        for backend in (self.home, self._there):
            backend.close()

    def _is_to_look(self) -> bool:
        return self._current is self.home and self.home.clock.timer() >= self._look_at and not self.is_in_block

    def _arrive(self) -> None:
        self._there.surrounding, self._there.clock = self.home.surrounding, self.home.clock
        self._current = self._there
        logger.info("the queue has moved from %s to %s", self.home.database.name, self._there.database.name)

    def _where(self) -> Backend | None:
        """Return the database in which the queue can be used; None in the moment between them."""
        try:
            away = _move_state(self.home, AWAY)
        except StoreUnavailable:
            here = _move_state(self._there, HERE)
            if here is not None and here.phase == OPEN:  # the database that was left is gone
                return self._there
            raise
        if away is None and not has_tables(self.home):
            here = _move_state(self._there, HERE)
            return self._there if here is not None and here.phase == OPEN else self.home
        if away is None or away.phase not in (SEALING, SEALED):
            return self.home
        here = _move_state(self._there, HERE)
        if here is not None and here.id != away.id:
            raise InvalidOption("moves_to", f"is {self._there.database.name}, but the queue has moved elsewhere")
        return self._there if here is not None and here.phase == OPEN else None


def has_tables(backend: Backend) -> bool:
    """Return whether the tables of a queue are there. Makes nothing."""
    if backend.is_schema_ready():
        return True
    path = backend.database.path
    if path and not os.path.exists(path):  # to look must not make it
        return False
    return backend.database.read(backend.dialect.version()).found > 0


def _move_state(backend: Backend, side: str) -> MoveState | None:
    return backend.database.read(state_of(backend.dialect, side)) if has_tables(backend) else None


Operation = Effects[Queue, T]
"""Something that a user can do, written once for sync and async code."""


def open_database(config: Config, now_ms: ReadTime) -> tuple[Dialect, Database]:
    """Return the database, without a connection to it yet, and its dialect."""
    return _sqlite(config, now_ms) if config.server is None else _ON_SERVER[config.server.kind](config, now_ms)


def _sqlite(config: Config, now_ms: ReadTime) -> tuple[Dialect, Database]:
    dialect = SqliteDialect(config.table_prefix, now_ms)
    return dialect, SqliteDatabase(config, partial(enqueue_members, dialect))


def _postgres(config: Config, now_ms: ReadTime) -> tuple[Dialect, Database]:
    with _advised("PostgreSQL", "postgres", "psycopg", "psycopg_pool"):
        from rowcall.drivers.postgres.database import PostgresDatabase
    from rowcall.store.postgres.dialect import PostgresDialect

    dialect = PostgresDialect(config.table_prefix, now_ms)
    return dialect, PostgresDatabase(config, partial(enqueue_members, dialect), dialect.notification())


def _mysql(config: Config, now_ms: ReadTime) -> tuple[Dialect, Database]:
    with _advised("MariaDB or MySQL", "mysql", "pymysql"):
        from rowcall.drivers.mysql.database import MysqlDatabase
    from rowcall.store.mysql.dialect import MysqlDialect

    dialect = MysqlDialect(config.table_prefix, now_ms)
    return dialect, MysqlDatabase(config, partial(enqueue_members, dialect))


_ON_SERVER: Mapping[ServerKind, OpenDatabase] = {"postgresql": _postgres, "mysql": _mysql}


@contextlib.contextmanager
def _advised(database: str, extra: str, *modules: str) -> Iterator[None]:
    """Say what to install if a driver is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in modules:
            raise
        raise InvalidOption("url", f"{database} needs {error.name}: pip install 'rowcall[{extra}]'") from None


def _blob_store(config: Config, dialect: Dialect, database: Database) -> BlobStore:
    if config.server is None:
        return BlobFolder(f"{database.path}-blobs", database.path, durable=not config.in_memory)
    return BlobTable(database, dialect)
