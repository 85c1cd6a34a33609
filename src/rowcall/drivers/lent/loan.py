"""What is the same for every kind of lent connection: it is looked at once, then runs plans."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeVar

from rowcall.drivers.runner import arun, run
from rowcall.errors import InvalidOption, RowcallError
from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")


Family = Literal["sqlite", "postgresql"]


class Guard(Protocol):
    """Knows where the queue lives, and whether a connection leads there."""

    database: Family
    name: str

    def check(self) -> Plan[None]:
        """Raises `InvalidOption` for a connection to elsewhere; the caller's transaction lives on."""

    def explained(self, error: Exception) -> Exception:
        """The error of ours for one of the driver's; others as they are."""


class Seen:
    """What was looked at already, and need not be looked at again while it lives."""

    def __init__(self) -> None:
        self._keys: weakref.WeakSet[object] = weakref.WeakSet()

    def __contains__(self, key: object) -> bool:
        return key is not None and key in self._keys

    def add(self, key: object) -> None:
        if key is not None:
            with contextlib.suppress(TypeError):  # what cannot be referred to weakly is looked at each time
                self._keys.add(key)


class Kind(Protocol):
    """A connection of one kind. `key` stands for the connection, or for all that lead to the same database."""

    @property
    def database(self) -> str: ...
    @property
    def key(self) -> object: ...


class SyncKind(Kind, Protocol):
    def execute(self, statement: Statement[object]) -> list[Row]: ...


class AsyncKind(Kind, Protocol):
    async def execute(self, statement: Statement[object]) -> list[Row]: ...


class Loan:
    """A connection in the hands of one call: sync or async, and never both."""

    def __init__(self, kind: SyncKind | AsyncKind, guard: Guard, seen: Seen, *, is_async: bool) -> None:
        self._kind = kind
        self._guard = guard
        self._seen = seen
        self.is_async = is_async

    def run(self, plan: Plan[T]) -> T:
        execute: Callable[[Statement[object]], list[Row]] = self._kind.execute  # type: ignore[assignment]
        if self.is_async:
            raise InvalidOption("connection", "is async: call the method with an a in front (aenqueue, acomplete)")
        try:
            if self._kind.key not in self._seen:
                run(self._guard.check(), execute)
                self._seen.add(self._kind.key)
            return run(plan, execute)
        except RowcallError:
            raise
        except Exception as error:
            raise self._explained(error) from error

    async def arun(self, plan: Plan[T]) -> T:
        execute: Callable[[Statement[object]], Awaitable[list[Row]]] = self._kind.execute  # type: ignore[assignment]
        if not self.is_async:
            raise InvalidOption("connection", "is not async: call the method without an a (enqueue, complete)")
        try:
            if self._kind.key not in self._seen:
                await arun(self._guard.check(), execute)
                self._seen.add(self._kind.key)
            return await arun(plan, execute)
        except RowcallError:
            raise
        except Exception as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, UnicodeEncodeError):
            return InvalidOption("connection", f"cannot carry this text: its client_encoding is {error.encoding}")
        found = self._guard.explained(error)
        return found if found is not error else RowcallError(f"the lent connection: {type(error).__name__}: {error}")
