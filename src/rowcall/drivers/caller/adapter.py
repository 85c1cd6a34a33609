"""What Rowcall needs of a caller's connection, whatever library made it."""

from __future__ import annotations

from abc import ABC, abstractmethod

from rowcall.store.statement import Row, Statement


class Adapter(ABC):
    """Wrap one connection. An adapter never begins, commits or rolls back."""

    @property
    @abstractmethod
    def database(self) -> str:
        """Return `sqlite`, `postgresql`, or the name of a database that Rowcall does not support."""

    @property
    @abstractmethod
    def key(self) -> object:
        """Return what identifies the connection, or all connections to the same database; None if unknown."""


class SyncAdapter(Adapter):
    @abstractmethod
    def execute(self, statement: Statement[object]) -> list[Row]: ...


class AsyncAdapter(Adapter):
    async def ready(self) -> None:
        """Do what must be awaited before `key` and `execute`."""

    @abstractmethod
    async def execute(self, statement: Statement[object]) -> list[Row]: ...
