"""What every operation stands on: the dialect, the database, the clock, the declared tasks."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import Protocol, TypeVar

from rowcall.base.clock import Clock
from rowcall.base.times import milliseconds_of
from rowcall.declare.declaration import Declaration
from rowcall.declare.failures import Failures
from rowcall.declare.limits import KnownLimits
from rowcall.declare.tracing import Tracing
from rowcall.domain.config import Config
from rowcall.domain.errors import Conflict, InvalidOption, SchemaMismatch, StoreUnavailable
from rowcall.drivers.caller.home import IdentityQuery
from rowcall.drivers.database import MakePlan
from rowcall.operations.blobs import Blobs
from rowcall.operations.opening import open_store
from rowcall.operations.transaction import Ground, Transaction, joined
from rowcall.store.dialect import Dialect
from rowcall.store.schedules.queries import DeclaredSchedule
from rowcall.store.statement import Plan

T = TypeVar("T")

MIGRATION_PATIENCE_SECONDS = 60.0


class Place(Protocol):
    """Where a plan is run in somebody's transaction: on a connection of the caller's, or in a block of ours."""

    def run(self, plan: Plan[T]) -> T: ...
    async def arun(self, plan: Plan[T]) -> T: ...


class Queue:
    app_module: str | None = None
    """The module that `rowcall work` was given: what child processes import first."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.dialect, self.database = open_store(config)
        self.tasks: dict[str, Declaration] = {}
        """The declared tasks by name, and by each of their aliases."""
        self.aliases: dict[str, str] = {}
        """The names of tasks by their aliases."""
        self.declared_schedules: dict[str, DeclaredSchedule] = {}
        self.limits = KnownLimits()
        self.blobs = Blobs(self)
        self.failures = Failures(config.scrub, config.traceback_limit)
        self.tracing: Tracing | None = None
        self.open_transactions: set[Ground] = set()
        self._turns = itertools.count()
        self._schema_ready = False
        self.lent_dialect: Dialect | None = None
        self._identity: IdentityQuery | None = None

    def now_ms(self) -> int | None:
        """A test's clock, or None for the database's own."""
        now = self.clock.now()
        return None if now is None else milliseconds_of(now)

    def migrate(self) -> tuple[int, int]:
        """Make or update the tables; gives the version found and the version now. Safe from many processes at once."""
        versions = self._migrate(MIGRATION_PATIENCE_SECONDS)
        self._schema_ready = True
        return versions

    async def amigrate(self) -> tuple[int, int]:
        return await asyncio.get_running_loop().run_in_executor(None, self.migrate)

    def _migrate(self, patience_seconds: float) -> tuple[int, int]:
        """Try for a lock, briefly and again and again: in between, the others can go on."""
        self.check_outside_block()
        deadline = time.monotonic() + patience_seconds
        while True:
            try:
                return self.database.write(lambda: self.dialect.migrate(self.now_ms()), once=True)
            except Conflict as error:
                if time.monotonic() > deadline:
                    raise StoreUnavailable(
                        f"the tables could not be locked for {patience_seconds:g} s: {error.problem}",
                        "A long transaction is in the way (rowcall doctor names it): end it, or migrate later",
                    ) from error
            time.sleep(random.uniform(0.5, 1.0))

    def read(self, plan: Plan[T]) -> T:
        self.ensure_schema()
        return self.database.read(plan)

    def read_together(self, make_plan: MakePlan[T]) -> T:
        self.ensure_schema()
        return self.database.read(make_plan(), snapshot=True)

    async def aread_together(self, make_plan: MakePlan[T]) -> T:
        await self.aensure_schema()
        return await self.database.aread(make_plan(), snapshot=True)

    def write(self, make_plan: MakePlan[T]) -> T:
        self.check_outside_block()
        self.ensure_schema()
        return self.database.write(make_plan)

    async def aread(self, plan: Plan[T]) -> T:
        await self.aensure_schema()
        return await self.database.aread(plan)

    async def awrite(self, make_plan: MakePlan[T]) -> T:
        self.check_outside_block()
        await self.aensure_schema()
        return await self.database.awrite(make_plan)

    def ensure_schema(self, patience_seconds: float = MIGRATION_PATIENCE_SECONDS) -> None:
        """Once per process: the tables are there and of this version, or are made so."""
        if self._is_schema_ready():
            return
        with self.database.setup_lock:
            if self._schema_ready:
                return
            version = self.database.read(self.dialect.version(), snapshot=True)
            found, newest = version.found, self.dialect.newest_version
            if found < newest and not self.config.auto_migrate:
                raise SchemaMismatch(found, newest, "run: rowcall migrate APP (auto_migrate is off)")
            version.require_fit(newest)
            if found < newest:
                self._migrate(patience_seconds)
            self._schema_ready = True

    def _is_schema_ready(self) -> bool:
        if self._schema_ready and self.database.was_replaced():
            self._schema_ready = False
        return self._schema_ready

    async def aensure_schema(self) -> None:
        if not self._is_schema_ready():
            await asyncio.get_running_loop().run_in_executor(None, self.ensure_schema)

    def check_outside_block(self) -> None:
        """Refuse what would wait for the end of the block that it is in."""
        if self.database.one_writer and joined(self) is not None:
            raise InvalidOption(
                "transaction",
                "inside its block, only enqueueing can be written: SQLite has one writer, and that is the block;"
                " do this before it or after it",
            )

    def destination(self, connection: object) -> object:
        """Where a job goes: the connection that was named, else the block that the call is in, else None."""
        return connection if connection is not None else joined(self)

    def lend(self, connection: object) -> tuple[Place, Dialect]:
        """The caller's connection, and the dialect to speak on it; what is wrong with it is said before anything."""
        if isinstance(connection, Transaction):
            return self._own(connection), self.dialect
        if self.lent_dialect is None:
            self.database.caller_connection(connection, None)
            self._prepare_to_lend()
        assert self.lent_dialect is not None
        return self.database.caller_connection(connection, self._identity), self.lent_dialect

    async def alend(self, connection: object) -> tuple[Place, Dialect]:
        if isinstance(connection, Transaction):
            return self._own(connection), self.dialect
        if self.lent_dialect is None:
            self.database.caller_connection(connection, None)
            await asyncio.get_running_loop().run_in_executor(None, self._prepare_to_lend)
        assert self.lent_dialect is not None
        return self.database.caller_connection(connection, self._identity), self.lent_dialect

    def _own(self, transaction: Transaction) -> Transaction:
        if not transaction.belongs_to(self):
            raise InvalidOption("connection", "is a transaction of another queue")
        return transaction

    def _prepare_to_lend(self) -> None:
        self._ensure_schema_beside()
        dialect = self.database.read(self.dialect.for_caller())
        self._identity = dialect.identity()
        self.lent_dialect = dialect

    def _ensure_schema_beside(self) -> None:
        """Without waiting for long: what is in the way may be the caller's own transaction."""
        try:
            self.ensure_schema(0.0)
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"the tables are not there yet, and could not be made: {error.problem}",
                "Your own open transaction may be in the way: call jobs.migrate() once before it, when the app starts",
            ) from error

    def close(self) -> None:
        """Close all connections; a later call opens anew. Blocks of `transaction()` that are open are rolled back."""
        for ground in list(self.open_transactions):
            ground.close()
        self.database.close()
