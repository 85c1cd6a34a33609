"""A connection as its user holds it: how it begins, commits and undoes, whatever kind it is."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from rowcall import Context, Job, Rowcall
from rowcall.task import Enqueuer

T = TypeVar("T")
Rows = list[tuple[Any, ...]]


class Undo(Exception):
    """Raised in a block to have it rolled back."""


class Caller(ABC):
    """All of it is written as if it were awaited; what is not async never really waits: see `run`."""

    is_async: ClassVar[bool] = False

    def __init__(self, database: str) -> None:
        self.database = database

    @property
    @abstractmethod
    def connection(self) -> object:
        """What is passed as `connection=`."""

    @abstractmethod
    async def open(self) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...
    @abstractmethod
    async def begin(self) -> None:
        """What its user does before the first statement; mostly nothing."""

    @abstractmethod
    async def commit(self) -> None: ...
    @abstractmethod
    async def rollback(self) -> None: ...
    @abstractmethod
    async def execute(self, sql: str) -> Rows: ...
    @abstractmethod
    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A block inside the transaction, undone by an exception."""

    async def enqueue(self, enqueuer: Enqueuer[Any, Any], *args: object) -> Job:
        return await enqueuer.aenqueue(*args) if self.is_async else enqueuer.enqueue(*args)

    async def enqueue_many(self, enqueuer: Enqueuer[Any, Any], rows: Iterable[Mapping[str, object]]) -> list[Job]:
        return await enqueuer.aenqueue_many(rows) if self.is_async else enqueuer.enqueue_many(rows)

    async def enqueue_by_name(self, jobs: Rowcall, task: str, arguments: Mapping[str, object], queue: str) -> Job:
        if self.is_async:
            return await jobs.aenqueue(task, arguments, queue=queue, connection=self.connection)
        return jobs.enqueue(task, arguments, queue=queue, connection=self.connection)

    async def complete(self, ctx: Context, result: object = None) -> None:
        if self.is_async:
            await ctx.acomplete(result, connection=self.connection)
        else:
            ctx.complete(result, connection=self.connection)


class Kind(NamedTuple):
    name: str
    database: Literal["sqlite", "postgresql", "mysql"]
    caller: Callable[[str], Caller]
    is_async: bool

    @property
    def needs_mysqlclient(self) -> bool:
        return self.name.startswith(("mysqlclient", "sqlalchemy-mysqldb"))

    @contextlib.asynccontextmanager
    async def opened(self, database: str) -> AsyncIterator[Caller]:
        caller = self.caller(database)
        await caller.open()
        try:
            yield caller
        finally:
            await caller.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(coroutine) if self.is_async else drive(coroutine)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never waits, without an event loop: some frameworks refuse to work next to one."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise AssertionError("something waited that was not async")
