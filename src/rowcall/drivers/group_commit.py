"""Enqueues of many threads and tasks of one process share commits: the thread that has the lock commits for all."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Generic, TypeVar

import msgspec

from rowcall.domain.errors import StoreUnavailable

M = TypeVar("M")
T = TypeVar("T")

MOST_MEMBERS = 500


class Entry(msgspec.Struct, Generic[M, T], eq=False):
    """One member of a group, and its result or error."""

    member: M
    future: asyncio.Future[T] | None
    done: bool = False
    result: T | None = None
    error: BaseException | None = None


class GroupCommit(Generic[M, T]):
    """`commit` writes some entries in one transaction and marks each of them done, with a result or an error."""

    def __init__(
        self, lock: threading.Lock, commit: Callable[[list[Entry[M, T]]], None], executor: Callable[[], Executor]
    ) -> None:
        self._lock = lock
        self._commit = commit
        self._executor = executor
        self._waiting: deque[Entry[M, T]] = deque()
        self._flush_asked = False

    def submit(self, member: M) -> T:
        entry: Entry[M, T] = Entry(member, None)
        self._waiting.append(entry)
        while not entry.done:
            with self._lock:
                if not entry.done:
                    self._commit_some()
        if entry.error is not None:
            raise entry.error
        return entry.result  # type: ignore[return-value]

    def asubmit(self, member: M) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(Entry(member, future))
        if not self._flush_asked:
            self._flush_asked = True
            try:
                self._executor().submit(self._flush)
            except BaseException:
                self._flush_asked = False
                raise
        return future

    def _flush(self) -> None:
        self._flush_asked = False
        while self._waiting:
            with self._lock:
                self._commit_some()

    def _commit_some(self) -> None:
        waiting = self._waiting
        entries: list[Entry[M, T]] = []
        try:
            while waiting and len(entries) < MOST_MEMBERS:
                entries.append(waiting.popleft())
            if entries:
                self._commit(entries)
        except BaseException as error:
            ours = isinstance(error, Exception)
            for entry in entries:
                if not entry.done:
                    entry.error, entry.done = error if ours else _interrupted(), True
            if not ours:
                raise
        finally:
            _resolve(entries)


def _interrupted() -> StoreUnavailable:
    """Return the error for the others of a group whose thread was interrupted, by Ctrl-C for example."""
    return StoreUnavailable(
        "the thread that wrote for this one was interrupted", "It is unknown whether the job was written"
    )


def _resolve(entries: list[Entry[M, T]]) -> None:
    if len(entries) == 1 and entries[0].future is None:
        return
    by_loop: dict[asyncio.AbstractEventLoop, list[Entry[M, T]]] = defaultdict(list)
    for entry in entries:
        if entry.future is not None:
            by_loop[entry.future.get_loop()].append(entry)
    for loop, members in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed, so that no task waits there
            loop.call_soon_threadsafe(_set_results, members)


def _set_results(entries: list[Entry[M, T]]) -> None:
    for entry in entries:
        if entry.future is None or entry.future.done():
            continue  # cancelled: the job may have been written
        if entry.error is not None:
            entry.future.set_exception(entry.error)
        else:
            entry.future.set_result(entry.result)  # type: ignore[arg-type]
