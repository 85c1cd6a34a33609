"""What is timed on the caller's connection: whole transactions, and statements inside one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import Literal, Protocol

from rowcall.task import Task

Noop = Task[[int, str], None]
What = Literal["bare", "enqueue"]


class CallerConnection(Protocol):
    """One connection, on which a job can be written in either way."""

    async def transactions(self, what: What, count: int) -> list[float]:
        """The seconds of each of this many transactions, which write and commit a job."""

    async def statements(self, what: What, count: int) -> list[float]:
        """The seconds of each of this many writes, all inside one transaction."""


@dataclass(frozen=True)
class SyncConnection:
    """A connection whose first write begins a transaction."""

    writes: Mapping[What, Callable[[], object]]
    commit: Callable[[], None]

    async def transactions(self, what: What, count: int) -> list[float]:
        write, commit, seconds = self.writes[what], self.commit, []
        for _ in range(count):
            began = perf_counter()
            write()
            commit()
            seconds.append(perf_counter() - began)
        return seconds

    async def statements(self, what: What, count: int) -> list[float]:
        write, seconds = self.writes[what], []
        for _ in range(count):
            began = perf_counter()
            write()
            seconds.append(perf_counter() - began)
        self.commit()
        return seconds


@dataclass(frozen=True)
class AsyncConnection:
    """A connection that is awaited, in transactions that are blocks."""

    writes: Mapping[What, Callable[[], Awaitable[object]]]
    transaction: Callable[[], AbstractAsyncContextManager[object]]

    async def transactions(self, what: What, count: int) -> list[float]:
        write, transaction, seconds = self.writes[what], self.transaction, []
        for _ in range(count):
            began = perf_counter()
            async with transaction():
                await write()
            seconds.append(perf_counter() - began)
        return seconds

    async def statements(self, what: What, count: int) -> list[float]:
        write, seconds = self.writes[what], []
        async with self.transaction():
            for _ in range(count):
                began = perf_counter()
                await write()
                seconds.append(perf_counter() - began)
        return seconds
