"""What every kind of database offers: it runs plans in transactions."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from rowcall.domain.config import Config
from rowcall.drivers.caller.connection import CallerConnections
from rowcall.drivers.caller.same_database import QueueDatabase
from rowcall.drivers.group_commit import GroupCommit
from rowcall.drivers.host_notification_file import NotificationFiles
from rowcall.drivers.patience import same_patience
from rowcall.drivers.transaction import OpenTransaction
from rowcall.store.jobs.enqueue import Member
from rowcall.store.new_job import Inserted
from rowcall.store.statement import Plan

T = TypeVar("T")
M = TypeVar("M")
R = TypeVar("R")

MakePlan = Callable[[], Plan[T]]
"""Makes a plan. A plan runs only once: another attempt at a transaction needs another plan."""


class Connection(Protocol):
    """A connection for one thread. After an error it reconnects."""

    times_opened: int
    """How often it was opened. Each time it may lead to another server, which lacks the last commits."""

    def read(self, plan: Plan[T]) -> T:
        """Run a plan that only reads; each statement sees the latest commits."""

    def write(self, plan: Plan[T], *, one_statement: bool = False) -> T:
        """Run a plan in a transaction: all of it, or nothing.

        With `one_statement`, without BEGIN and COMMIT, which cost two round trips: for a plan with one statement that
        writes.
        """

    def change_counter(self) -> int | None:
        """Return a number that changes when others commit, or None if the database has none."""

    def close(self) -> None: ...


class Database(ABC):
    """Opens connections at their first use. `enqueue` makes the plan that writes members: of one, one statement."""

    block_excludes_writers: bool
    """Whether all other writes wait until a block of `transaction()` has ended."""

    shows_commits: bool
    """Whether a process that waits sees each commit, also without a row that says what it waits for."""

    notification_files: NotificationFiles | None = None
    """Those by which processes of a host notify each other, where the database itself does not notify."""

    bulk_pause: float
    """How long pruning or an action on many jobs pauses for others, as a multiple of the time of each transaction."""

    survey_seconds: float
    """How often a worker may check the others without slowing the database down."""

    threads = 4
    """How many threads read for async callers, and how many write."""

    name: str
    """The path, or the URL without its password."""

    path = ""
    """The file, if the database is one."""

    def __init__(
        self,
        config: Config,
        enqueue: Callable[[Sequence[Member]], Plan[list[Inserted]]],
        home: QueueDatabase,
    ) -> None:
        self._config = config
        self._enqueue = enqueue
        self.caller_connections = CallerConnections(home)
        self._reset()

    def _reset(self) -> None:
        """Start without connections, threads and locks; called again in a forked child."""
        self._lock = threading.Lock()
        self.setup_lock = threading.Lock()
        self._executors: dict[str, ThreadPoolExecutor] = {}
        self.shared: GroupCommit[Member, Inserted] = self._group_commit("flush", self._lock, self._write_members)

    def share(self, make_plan: Callable[[Sequence[M]], Plan[Sequence[R | Exception]]]) -> GroupCommit[M, R]:
        """Return a group commit for members that one plan writes; it returns a result or an error for each."""
        return self._group_commit("share", threading.Lock(), lambda members: self.write(lambda: make_plan(members)))

    def _group_commit(
        self, name: str, lock: threading.Lock, write: Callable[[list[M]], Sequence[R | Exception]]
    ) -> GroupCommit[M, R]:
        return GroupCommit(lock, write, lambda: self._executor(name, 1), self._config.busy_timeout_seconds)

    @property
    @abstractmethod
    def side_folder(self) -> str:
        """Return the folder on this host for the files that workers lock."""

    @abstractmethod
    def connect(self) -> Connection:
        """Return a connection for one thread, which must close it."""

    def was_replaced(self) -> bool:
        """Return whether the path now leads to another database; if so, close all connections."""
        return False

    @abstractmethod
    def read(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        """Run a plan that only reads. With `snapshot`, all its statements see the same state of the database.

        A plan that takes longer than `seconds`, or on a server a statement that does, is stopped: `StoreUnavailable`.
        """

    @abstractmethod
    def write(self, make_plan: MakePlan[T], *, once: bool = False) -> T:
        """Run a plan in a transaction. Try again after a conflict, unless `once`."""

    @abstractmethod
    def begin(self) -> OpenTransaction:
        """Begin a transaction on its own connection. Until it ends, the caller may read on another."""

    async def aread(self, plan: Plan[T], *, snapshot: bool = False, seconds: float | None = None) -> T:
        threads = self._executor("read", self.threads)
        read = partial(self.read, plan, snapshot=snapshot, seconds=seconds)
        return await asyncio.get_running_loop().run_in_executor(threads, same_patience(read))

    async def awrite(self, make_plan: MakePlan[T]) -> T:
        write = same_patience(partial(self.write, make_plan))
        return await asyncio.get_running_loop().run_in_executor(self._executor("write", self.threads), write)

    def read_within(self, read: Callable[[], T], seconds: float) -> T:
        """Read in a thread, and raise `TimeoutError` if it does not end in time: a server may not reply."""
        return self._executor("read", self.threads).submit(read).result(seconds)

    @abstractmethod
    def vacuum(self) -> int:
        """Give the space of deleted rows back to the file system. Return how many bytes were freed."""

    def shrink(self, stopped: Callable[[], bool]) -> int:
        """Do what `vacuum` does until `stopped()` returns true, if the database does not do it automatically."""
        return 0

    def checkpoint(self) -> None:  # noqa: B027
        """Copy the WAL back into the file, if the database has one."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection. The next use opens new ones."""

    @abstractmethod
    def _write_members(self, members: list[Member]) -> list[Inserted]:
        """Write jobs in one transaction. The caller has the lock."""

    def _executor(self, name: str, threads: int) -> ThreadPoolExecutor:
        """Return threads for async callers. All that write may wait for a transaction whose owner reads."""
        if (executor := self._executors.get(name)) is None:
            executor = self._executors[name] = ThreadPoolExecutor(threads, thread_name_prefix=f"rowcall-{name}")
        return executor

    def _shut_down_executors(self) -> None:
        executors, self._executors = self._executors, {}
        for executor in executors.values():
            executor.shutdown(wait=False)
