"""A block of code whose writes share one transaction of the queue; blocks inside it are savepoints."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import TypeVar

from rowcall.domain.errors import InvalidOption, RowcallError, StoreUnavailable
from rowcall.drivers.database import Database
from rowcall.drivers.patience import same_patience
from rowcall.drivers.transaction import OpenTransaction
from rowcall.drivers.uncancellable import LOCK_PATIENCE_SECONDS, finish
from rowcall.store.statement import Plan, Statement, as_is, execute

T = TypeVar("T")
Self = TypeVar("Self", bound="Block")


class Block:
    """Runs plans in the transaction between `with` and its end."""

    def __init__(self, database: Database, open_transactions: set[SharedTransaction]) -> None:
        self._database = database
        self._open_transactions = open_transactions
        self._shared: SharedTransaction | None = None
        self._owner: object = None
        self._savepoint = ""
        self.outer: Block | CallerBlock | None = None
        self.is_over = False

    def __enter__(self: Self) -> Self:
        shared = self._start()
        try:
            self._begin(shared)
        except BaseException:
            shared.stop_thread()
            raise
        innermost.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        shared = self._leave()
        try:
            self._end(shared, keep=kind is None)
        finally:
            shared.stop_thread()

    async def __aenter__(self: Self) -> Self:
        shared = self._start()
        try:
            await shared.in_thread(lambda: self._begin(shared))
        except BaseException:
            try:
                await shared.in_thread(lambda: self._end(shared, keep=False))  # it was cancelled, but has begun
            finally:
                shared.stop_thread()
            raise
        innermost.set(self)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        shared = self._leave()
        try:
            # in a forked child there is no thread any more, and in a coroutine that is being closed no event loop
            if not shared.is_alive or kind is GeneratorExit:
                self._end(shared, keep=kind is None)
            else:
                await shared.in_thread(lambda: self._end(shared, keep=kind is None))
        finally:
            shared.stop_thread()

    def run(self, plan: Plan[T]) -> T:
        """Run a plan in this transaction."""
        return self._begun().run(self, plan)

    async def arun(self, plan: Plan[T]) -> T:
        """`run`, for async code."""
        shared = self._begun()
        shared.check(self)
        return await shared.arun(self, plan)

    def belongs_to(self, database: Database) -> bool:
        return self._database is database

    @property
    def is_here(self) -> bool:
        """Whether this very thread and task opened it."""
        return self._owner == _here()

    def _start(self) -> SharedTransaction:
        if self._shared is not None:
            raise InvalidOption("transaction", "was used already: call jobs.transaction() for each block")
        self._owner = _here()
        self.outer = innermost.get()
        around = innermost_block(self._database)
        self._shared = SharedTransaction(self._open_transactions) if around is None else around._begun()
        return self._shared

    def _begin(self, shared: SharedTransaction) -> None:
        shared.check_alive()
        with shared.lock:
            if shared.blocks:
                shared.check(shared.blocks[-1])
                self._savepoint = f"rowcall_block_{len(shared.blocks)}"
                shared.execute(f"savepoint {self._savepoint}")
            else:
                shared.begin(self._database)
            shared.blocks.append(self)

    def _leave(self) -> SharedTransaction:
        shared = self._begun()
        self.is_over = True
        innermost.set(self.outer)
        return shared

    def _end(self, shared: SharedTransaction, *, keep: bool) -> None:
        if not keep and not shared.is_alive:
            return
        shared.check_alive()
        with shared.lock:
            reason = shared.reason_against(self)
            if keep and reason is None:
                self._keep(shared)
                return
            self._undo(shared)
        if keep and reason is not None:
            raise StoreUnavailable(f"nothing of this block was written: {reason}") from shared.broken

    def _keep(self, shared: SharedTransaction) -> None:
        shared.blocks.pop()
        if self._savepoint:
            shared.execute(f"release savepoint {self._savepoint}")
        else:
            shared.finish(OpenTransaction.commit)

    def _undo(self, shared: SharedTransaction) -> None:
        if self not in shared.blocks:
            return
        del shared.blocks[shared.blocks.index(self) :]
        if not self._savepoint:
            shared.finish(OpenTransaction.roll_back)
            return
        shared.broken = None
        with contextlib.suppress(StoreUnavailable):  # the connection is lost: the outer block reports it at its end
            shared.execute(f"rollback to savepoint {self._savepoint}")
            shared.execute(f"release savepoint {self._savepoint}")

    def _begun(self) -> SharedTransaction:
        if self._shared is None:
            raise InvalidOption("transaction", "has not begun: use it inside its with block")
        return self._shared


class SharedTransaction:
    """The transaction of the database, which a block shares with the blocks inside it. One step at a time."""

    def __init__(self, open_transactions: set[SharedTransaction]) -> None:
        self._open_transactions = open_transactions
        self._pid = os.getpid()
        self._thread: ThreadPoolExecutor | None = None
        self._transaction: OpenTransaction | None = None
        self._was_closed = False
        self.lock = threading.Lock()
        self.blocks: list[Block] = []
        self.broken: BaseException | None = None

    def begin(self, database: Database) -> None:
        self._transaction = database.begin()
        self._open_transactions.add(self)

    async def in_thread(self, step: Callable[[], T], *, cancelled: Callable[[], None] | None = None) -> T:
        """Run a step in a thread for this transaction: those of the queue may all be waiting for it."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="rowcall-transaction")
        running = asyncio.get_running_loop().run_in_executor(self._thread, same_patience(step))
        return await finish(running, cancelled=cancelled)

    @property
    def is_alive(self) -> bool:
        return self._pid == os.getpid() and not self._was_closed

    def check_alive(self) -> None:
        if self._pid != os.getpid():
            raise InvalidOption("transaction", "belongs to the process that this one was forked from")
        if self._was_closed:
            raise InvalidOption("transaction", "was rolled back when the queue was closed")

    def reason_against(self, block: Block) -> str | None:
        """Return why nothing can be written in that block now, if so."""
        if self._was_closed:
            return "the queue was closed"
        if block not in self.blocks:
            return "it is over"
        if self.blocks[-1] is not block:
            return "a block inside it is still open"
        return None if self.broken is None else f"an earlier call in it failed ({self.broken})"

    def check(self, block: Block) -> None:
        self.check_alive()
        if (reason := self.reason_against(block)) is not None:
            raise InvalidOption("transaction", f"cannot be used: {reason}")

    def run(self, block: Block, plan: Plan[T]) -> T:
        self.check_alive()  # before the lock: in a forked child, that may never be free
        with self.lock:
            self.check(block)
            return self._run(plan)

    async def arun(self, block: Block, plan: Plan[T]) -> T:
        """`run`, in the thread. A plan that waits for a lock after its task was cancelled is interrupted."""
        loop = asyncio.get_running_loop()  # it does not run when `asyncio.run` cancels what is left
        timer: asyncio.TimerHandle | None = None

        def cancelled() -> None:
            nonlocal timer
            timer = loop.call_later(LOCK_PATIENCE_SECONDS, self._interrupt, plan)

        try:
            return await self.in_thread(lambda: self.run(block, plan), cancelled=cancelled)
        finally:
            if timer is not None:
                timer.cancel()

    def _interrupt(self, plan: Plan[T]) -> None:
        assert self._transaction is not None
        threading.Thread(target=self._transaction.interrupt, args=[plan], daemon=True).start()  # it asks the server

    def execute(self, sql: str) -> None:
        self._run(execute(Statement(sql, (), as_is)))

    def _run(self, plan: Plan[T]) -> T:
        assert self._transaction is not None
        try:
            return self._transaction.run(plan)
        except RowcallError as error:
            if error.__cause__ is not None or isinstance(error, StoreUnavailable):  # not only refused by a plan
                self.broken = error
            raise
        except BaseException as error:
            self.broken = error
            raise

    def finish(self, step: Callable[[OpenTransaction], None]) -> None:
        assert self._transaction is not None
        self._open_transactions.discard(self)
        step(self._transaction)

    def close(self) -> None:
        """Roll back, because the queue is closed."""
        if self._pid != os.getpid():
            return
        with self.lock:
            if self.blocks:
                self._was_closed = True
                self.blocks.clear()
                self.finish(OpenTransaction.roll_back)

    def stop_thread(self) -> None:
        """Let the thread end, once no block is left."""
        if self._thread is not None and not self.blocks:
            self._thread.shutdown(wait=False)


class CallerBlock:
    """Between `with` and its end, jobs of this thread and task join the transaction of a caller's connection."""

    def __init__(self, database: Database, connection: object) -> None:
        self._database = database
        self._owner: object = None
        self.connection = connection
        self.outer: Block | CallerBlock | None = None
        self.is_over = False

    def enter(self) -> None:
        if self._owner is not None:
            raise InvalidOption("bind", "was used already: call jobs.bind(…) for each block")
        self._owner = _here()
        self.outer = innermost.get()
        innermost.set(self)

    def leave(self) -> None:
        self.is_over = True
        innermost.set(self.outer)

    def belongs_to(self, database: Database) -> bool:
        return self._database is database

    @property
    def is_here(self) -> bool:
        return self._owner == _here()


innermost: ContextVar[Block | CallerBlock | None] = ContextVar("rowcall_block", default=None)
"""The block in which this thread and task are now, of any database."""


def innermost_block(database: Database) -> Block | None:
    """Return the block of that database in which this thread and task are now."""
    block = innermost.get()
    while block is not None and not (isinstance(block, Block) and _is_in(block, database)):
        block = block.outer
    return block


def innermost_connection(database: Database) -> object:
    """Return the block, or the caller's connection of a `CallerBlock`, that jobs enqueued here and now join."""
    block = innermost.get()
    while block is not None:
        if _is_in(block, database):
            return block.connection if isinstance(block, CallerBlock) else block
        block = block.outer
    return None


def _is_in(block: Block | CallerBlock, database: Database) -> bool:
    return block.belongs_to(database) and block.is_here and not block.is_over


def _here() -> tuple[int, object]:
    try:
        task: object = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    return threading.get_ident(), task
