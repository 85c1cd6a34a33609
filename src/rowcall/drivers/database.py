"""What a database of any kind is to the rest: it runs plans in transactions."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

from rowcall.drivers.caller.connection import CallerConnection, CallerConnections
from rowcall.drivers.caller.home import Home, IdentityQuery
from rowcall.drivers.group_commit import Entry, GroupCommit
from rowcall.store.statement import Plan

T = TypeVar("T")
M = TypeVar("M")
E = TypeVar("E")

MakePlan = Callable[[], Plan[T]]
"""Makes a plan, which can run only once: a transaction that is tried again needs another."""


class Connection(Protocol):
    """A connection that one thread uses. After an error it reconnects by itself."""

    def read(self, plan: Plan[T]) -> T:
        """Run a plan that only reads; each statement sees a snapshot of its own."""

    def write(self, plan: Plan[T], *, one_statement: bool = False) -> T:
        """Run a plan in a transaction: all of it, or nothing.

        With `one_statement`, in one round trip instead of three, for one statement that may be written twice.
        """

    def change_counter(self) -> int | None:
        """Return a number that changes when others commit, or None if the database has none."""

    def close(self) -> None: ...


class Transaction(Protocol):
    """A transaction that stays open between plans, on its own connection. One thread at a time uses it.

    After an error of the database it can only be rolled back, to a savepoint or as a whole.
    """

    def run(self, plan: Plan[T]) -> T: ...
    def interrupt(self, plan: Plan[Any]) -> None:
        """Cancel a plan that another thread runs here; it may wait for a lock. The plan then fails."""

    def savepoint(self, name: str) -> None:
        """Set a savepoint."""

    def release(self, name: str) -> None: ...
    def roll_back_to(self, name: str) -> None:
        """Roll back to the savepoint, and release it."""

    def commit(self) -> None:
        """End the transaction, even if this raises."""

    def roll_back(self) -> None:
        """End the transaction. Never raises: what is not committed is undone sooner or later in any case."""


class Database(ABC, Generic[M, E]):
    """Opens connections at their first use. Members of a shared commit that are `alike` are written by one plan."""

    one_writer: bool
    """Whether all others have to wait while one transaction writes."""

    survey_seconds: float
    """How often a worker may check on the others without being a burden."""

    path = ""
    """The file, if the database is one."""

    def __init__(
        self,
        plan_of_one: Callable[[M], Plan[E]],
        plan_of_many: Callable[[Sequence[M]], Plan[list[E]]],
        alike: Callable[[M], object],
        home: Home,
    ) -> None:
        self._plan_of_one = plan_of_one
        self._plan_of_many = plan_of_many
        self._alike = alike
        self._caller_connections = CallerConnections(home)
        self._reset()

    def _reset(self) -> None:
        """Forget all connections, threads and locks; called again in a forked child."""
        self._lock = threading.Lock()
        self.setup_lock = threading.Lock()
        self._executors: dict[str, ThreadPoolExecutor] = {}
        self._group: GroupCommit[M, E] = GroupCommit(self._lock, self._commit, self._flusher)

    @property
    @abstractmethod
    def name(self) -> str:
        """The path, or the URL without its password."""

    @property
    @abstractmethod
    def side_folder(self) -> str:
        """A folder of this host for the files that workers lock."""

    @abstractmethod
    def connect(self) -> Connection:
        """Return a connection for one thread, which has to close it."""

    def was_replaced(self) -> bool:
        """Return whether the path leads to another database now; then all connections are closed."""
        return False

    @abstractmethod
    def read(self, plan: Plan[T], *, snapshot: bool = False) -> T:
        """Run a plan that only reads. With `snapshot`, in a transaction: all its statements see the same moment."""

    @abstractmethod
    def write(self, make_plan: MakePlan[T], *, once: bool = False) -> T:
        """Run a plan in a transaction. After a conflict, try again, unless `once`."""

    @abstractmethod
    def begin(self) -> Transaction: ...

    def write_shared(self, member: M) -> E:
        """Write one member, in a commit that other threads and tasks of this process may share."""
        return self._group.submit(member)

    async def aread(self, plan: Plan[T], *, snapshot: bool = False) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._reader(), lambda: self.read(plan, snapshot=snapshot)
        )

    async def awrite(self, make_plan: MakePlan[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads(), self.write, make_plan)

    async def awrite_shared(self, member: M) -> E:
        return await self._group.asubmit(member)

    def caller_connection(self, connection: object, identity: IdentityQuery | None) -> CallerConnection:
        """Return a caller's connection, to run a plan inside the caller's own transaction.

        `identity` is asked on it, and on a connection of this object, to check that both lead to the same database.
        """
        return self._caller_connections.wrap(connection, identity)

    @abstractmethod
    def vacuum(self) -> int:
        """Return the space of deleted rows to the file system, and the number of bytes that were freed."""

    def shrink(self, stopped: Callable[[], bool]) -> None:
        """`vacuum`, as far as the database does not do it by itself, until `stopped()`."""

    def checkpoint(self) -> None:
        """Do the regular maintenance that the database does not do by itself."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection. The next use opens new ones."""

    @abstractmethod
    def _commit(self, entries: list[Entry[M, E]]) -> None:
        """Write the entries in one transaction, and give each its result or its error."""

    @abstractmethod
    def _threads(self) -> ThreadPoolExecutor:
        """Return the threads that run plans for async callers."""

    def _reader(self) -> ThreadPoolExecutor:
        return self._threads()

    def _flusher(self) -> ThreadPoolExecutor:
        """Return the threads that commit for async callers."""
        return self._threads()

    def _executor(self, name: str, threads: int) -> ThreadPoolExecutor:
        if (executor := self._executors.get(name)) is None:
            executor = self._executors[name] = ThreadPoolExecutor(threads, thread_name_prefix=f"rowcall-{name}")
        return executor

    def _shut_down_executors(self) -> None:
        executors, self._executors = self._executors, {}
        for executor in executors.values():
            executor.shutdown(wait=False)
