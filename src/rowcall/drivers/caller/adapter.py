"""What Rowcall needs of a caller's connection, whatever library made it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from rowcall.domain.errors import InvalidOption
from rowcall.store.statement import Row, Statement

C = TypeVar("C")
T = TypeVar("T")

HALF_READ = "has a cursor that is half read: read it to its end, or close it, first"


class Adapter(ABC, Generic[C]):
    """Wrap one connection. An adapter never begins, commits or rolls back."""

    database: str
    """`sqlite`, `postgresql`, or the name of a database that Rowcall does not support."""

    def __init__(self, connection: C) -> None:
        self._connection = connection

    @property
    def key(self) -> object:
        """Return what identifies the connection, or all connections to the same database; None if unknown."""
        return self._connection


class SyncAdapter(Adapter[C]):
    async def in_its_thread(self, function: Callable[[], T]) -> T:
        """Call a function in the thread that the connection belongs to, if the framework knows a way there."""
        raise InvalidOption("connection", "is not async: call the method without an a (enqueue, complete)")

    @abstractmethod
    def execute(self, statement: Statement[object]) -> list[Row]: ...


class AsyncAdapter(Adapter[C]):
    async def ready(self) -> None:
        """Do what must be awaited before `key` and `execute`."""

    @abstractmethod
    async def execute(self, statement: Statement[object]) -> list[Row]: ...


def several_statements(what: str) -> InvalidOption:
    """Return the error for a connection that commits each statement separately."""
    return InvalidOption(
        "connection",
        f"has no transaction open, and commits each statement separately, but {what} several statements;"
        " begin a transaction first, or leave connection= out",
    )
