"""Many enqueues in one transaction of the queue's own; blocks inside it are savepoints."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, Unpack

from rowcall.declare.options import EnqueueOptions
from rowcall.domain.errors import InvalidOption, RowcallError, StoreUnavailable
from rowcall.domain.job import Job
from rowcall.drivers.finishing import LOCK_PATIENCE_SECONDS, finish
from rowcall.store.statement import Plan

if TYPE_CHECKING:
    from rowcall.drivers import transaction as drivers
    from rowcall.operations.enqueue import Enqueueing
    from rowcall.queue import Queue

T = TypeVar("T")


class Transaction:
    """What `jobs.transaction()` gives: a block whose jobs are all written at its end, or none of them.

        with jobs.transaction() as tx:
            charge.enqueue(order_id=1)
            with jobs.transaction():          # a savepoint
                send_email.enqueue("a@example.com", subject="Order confirmed")
            tx.enqueue("by_name", {"order_id": 1})

    What is enqueued inside the block, by the thread and the asyncio task that opened it, joins it by itself. Others
    join it with `connection=tx`.
    """

    def __init__(self, jobs: Enqueueing) -> None:
        self._jobs = jobs
        self._ground: Ground | None = None
        self._owner: object = None
        self._mark = ""
        self.outer: Transaction | None = None
        self.is_over = False

    def enqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        """`jobs.enqueue`, in this transaction, from any thread."""
        options["connection"] = self
        return self._jobs.enqueue(task, arguments, **options)

    async def aenqueue(
        self, task: str, arguments: Mapping[str, object] | None = None, **options: Unpack[EnqueueOptions]
    ) -> Job:
        options["connection"] = self
        return await self._jobs.aenqueue(task, arguments, **options)

    def __enter__(self) -> Transaction:
        ground = self._start()
        self._jobs.ensure_schema()
        try:
            self._begin(ground)
        except BaseException:
            ground.dismiss()
            raise
        _innermost.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ground = self._leave()
        try:
            self._end(ground, kept=kind is None)
        finally:
            ground.dismiss()

    async def __aenter__(self) -> Transaction:
        ground = self._start()
        await self._jobs.aensure_schema()
        try:
            await ground.hop(lambda: self._begin(ground))
        except BaseException:
            try:
                await ground.hop(lambda: self._take_back(ground))  # it was cancelled, and has begun all the same
            finally:
                ground.dismiss()
            raise
        _innermost.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ground = self._leave()
        try:
            # in a forked child there is no thread any more, and in a coroutine that is being closed no event loop
            if not ground.is_alive or kind is GeneratorExit:
                self._end(ground, kept=kind is None)
            else:
                await ground.hop(lambda: self._end(ground, kept=kind is None))
        finally:
            ground.dismiss()

    def run(self, plan: Plan[T]) -> T:
        """Run a plan in this transaction, as on a connection that was lent."""
        return self._known_ground().run(self, plan)

    async def arun(self, plan: Plan[T]) -> T:
        ground = self._known_ground()
        ground.check(self)
        return await ground.arun(self, plan)

    def belongs_to(self, core: Queue) -> bool:
        return self._jobs is core

    @property
    def is_here(self) -> bool:
        """Whether it was opened by this very thread and task."""
        return self._owner == _here()

    def _start(self) -> Ground:
        if self._ground is not None:
            raise InvalidOption("transaction", "was used already: call jobs.transaction() for each block")
        self._owner = _here()
        self.outer = _innermost.get()
        around = joined(self._jobs)
        self._ground = Ground(self._jobs) if around is None else around._known_ground()
        return self._ground

    def _begin(self, ground: Ground) -> None:
        ground.check_alive()
        with ground.lock:
            if ground.blocks:
                ground.check(ground.blocks[-1])
                self._mark = f"rowcall_block_{len(ground.blocks)}"
                ground.do(lambda transaction: transaction.savepoint(self._mark))
            else:
                ground.transaction = self._jobs.database.begin()
                self._jobs.open_transactions.add(ground)
            ground.blocks.append(self)

    def _leave(self) -> Ground:
        ground = self._known_ground()
        self.is_over = True
        _innermost.set(self.outer)
        return ground

    def _end(self, ground: Ground, *, kept: bool) -> None:
        if not kept and not ground.is_alive:
            return
        ground.check_alive()
        with ground.lock:
            reason = ground.reason_against(self)
            if kept and reason is None:
                self._keep(ground)
                return
            self._undo(ground)
        if kept and reason is not None:
            raise StoreUnavailable(f"nothing of this block was written: {reason}") from ground.broken

    def _keep(self, ground: Ground) -> None:
        ground.blocks.pop()
        if self._mark:
            ground.do(lambda transaction: transaction.release(self._mark))
        else:
            ground.finish(lambda transaction: transaction.commit())

    def _undo(self, ground: Ground) -> None:
        if self not in ground.blocks:
            return
        del ground.blocks[ground.blocks.index(self) :]
        if not self._mark:
            ground.finish(lambda transaction: transaction.roll_back())
            return
        ground.broken = None
        with contextlib.suppress(StoreUnavailable):  # the connection is lost: then the outer block says so at its end
            ground.do(lambda transaction: transaction.roll_back_to(self._mark))

    def _take_back(self, ground: Ground) -> None:
        with ground.lock:
            self._undo(ground)

    def _known_ground(self) -> Ground:
        if self._ground is None:
            raise InvalidOption("transaction", "has not begun: use it inside its with block")
        return self._ground


class Ground:
    """The transaction of the database, which a block shares with the blocks inside it. One step at a time."""

    def __init__(self, jobs: Enqueueing) -> None:
        self._jobs = jobs
        self._pid = os.getpid()
        self._threads: ThreadPoolExecutor | None = None
        self.lock = threading.Lock()
        self.transaction: drivers.Transaction | None = None
        self.blocks: list[Transaction] = []
        self.broken: BaseException | None = None
        self._was_closed = False

    @property
    def threads(self) -> ThreadPoolExecutor:
        """A thread of its own: those of the queue may all be waiting for this very transaction."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="rowcall-transaction")
        return self._threads

    async def hop(self, step: Callable[[], T], *, cancelled: Callable[[], None] | None = None) -> T:
        return await finish(asyncio.get_running_loop().run_in_executor(self.threads, step), cancelled=cancelled)

    @property
    def is_alive(self) -> bool:
        return self._pid == os.getpid() and not self._was_closed

    def check_alive(self) -> None:
        if self._pid != os.getpid():
            raise InvalidOption("transaction", "belongs to the process that this one was forked from")
        if self._was_closed:
            raise InvalidOption("transaction", "was rolled back when the queue was closed")

    def reason_against(self, block: Transaction) -> str | None:
        """Why nothing can be written in that block now."""
        if self._was_closed:
            return "the queue was closed"
        if block not in self.blocks:
            return "it is over"
        if self.blocks[-1] is not block:
            return "a block inside it is still open"
        return None if self.broken is None else f"an earlier call in it failed ({self.broken})"

    def check(self, block: Transaction) -> None:
        self.check_alive()
        if (reason := self.reason_against(block)) is not None:
            raise InvalidOption("transaction", f"cannot be used: {reason}")

    def run(self, block: Transaction, plan: Plan[T]) -> T:
        self.check_alive()  # before the lock: in a forked child, that may never be free
        with self.lock:
            self.check(block)
            return self.do(lambda transaction: transaction.run(plan))

    async def arun(self, block: Transaction, plan: Plan[T]) -> T:
        """`run`, in the thread. A plan that waits for a lock after its task was cancelled is interrupted."""
        loop = asyncio.get_running_loop()  # it does not run when `asyncio.run` cancels what is left
        timer: asyncio.TimerHandle | None = None

        def cancelled() -> None:
            nonlocal timer
            timer = loop.call_later(LOCK_PATIENCE_SECONDS, self._interrupt, plan)

        try:
            return await self.hop(lambda: self.run(block, plan), cancelled=cancelled)
        finally:
            if timer is not None:
                timer.cancel()

    def _interrupt(self, plan: Plan[T]) -> None:
        assert self.transaction is not None
        threading.Thread(target=self.transaction.interrupt, args=[plan], daemon=True).start()  # it asks the server

    def do(self, step: Callable[[drivers.Transaction], T]) -> T:
        assert self.transaction is not None
        try:
            return step(self.transaction)
        except RowcallError as error:
            if error.__cause__ is not None or isinstance(error, StoreUnavailable):  # not only refused by a plan
                self.broken = error
            raise
        except BaseException as error:
            self.broken = error
            raise

    def finish(self, step: Callable[[drivers.Transaction], None]) -> None:
        assert self.transaction is not None
        self._jobs.open_transactions.discard(self)
        step(self.transaction)

    def close(self) -> None:
        """The queue is closed under it."""
        if self._pid != os.getpid():
            return
        with self.lock:
            if self.blocks:
                self._was_closed = True
                self.blocks.clear()
                self.finish(lambda transaction: transaction.roll_back())

    def dismiss(self) -> None:
        """Let the thread go, once no block is left."""
        if self._threads is not None and not self.blocks:
            self._threads.shutdown(wait=False)


_innermost: ContextVar[Transaction | None] = ContextVar("rowcall_transaction", default=None)


def joined(core: Queue) -> Transaction | None:
    """The block of that queue in which this thread and task are now."""
    block = _innermost.get()
    while block is not None and not (block.belongs_to(core) and block.is_here and not block.is_over):
        block = block.outer
    return block


def _here() -> tuple[int, object]:
    try:
        task: object = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        task = None
    return threading.get_ident(), task
