"""What is the same for every kind of lent connection: it is looked at once, then runs plans."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Literal, Protocol, TypeVar

from rowcall.domain.errors import InvalidOption, RowcallError
from rowcall.drivers.finishing import LOCK_PATIENCE_SECONDS, finish
from rowcall.drivers.runner import arun, run
from rowcall.store.statement import Plan, Row, Statement, no_row

T = TypeVar("T")


Family = Literal["sqlite", "postgresql"]
IdentityQuery = Statement[Row]

_FAIL = Statement("select 1 / 0", (), no_row)


class Guard(Protocol):
    """Knows where the queue lives, and whether a connection leads there."""

    database: Family
    name: str

    is_ready: bool

    def prepare(self, identity: IdentityQuery | None) -> None:
        """Learn where the queue lives; this may take a round trip."""

    def check(self, identity: IdentityQuery | None) -> Plan[str | None]:
        """What is wrong with where the connection leads, if anything; the caller's transaction lives on."""

    def explained(self, error: Exception) -> Exception:
        """The error of ours for one of the driver's; others as they are."""


class Seen:
    """What was looked at already, and need not be looked at again while it lives."""

    def __init__(self) -> None:
        self._keys: weakref.WeakSet[object] = weakref.WeakSet()
        self.files: set[str] = set()

    def __contains__(self, key: object) -> bool:
        if type(key) is str:
            return key in self.files
        return key is not None and key in self._keys

    def add(self, key: object) -> None:
        if type(key) is str:
            self.files.add(key)
        elif key is not None:
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
    async def ready(self) -> None:
        """Before `key` is asked for."""

    async def execute(self, statement: Statement[object]) -> list[Row]: ...


def patience_on(guard: Guard) -> float | None:
    """How long a cancelled call goes on before its statement is cancelled: on a server it may wait for any lock.

    SQLite has time limits of its own, and a statement that runs in a thread cannot be cancelled.
    """
    return LOCK_PATIENCE_SECONDS if guard.database == "postgresql" else None


class Loan:
    """A connection in the hands of one call."""

    def __init__(self, guard: Guard, seen: Seen, identity: IdentityQuery | None) -> None:
        self._guard = guard
        self._seen = seen
        self._identity = identity

    def run(self, plan: Plan[T]) -> T:
        raise InvalidOption("connection", "is async: call the method with an a in front (aenqueue, acomplete)")

    async def arun(self, plan: Plan[T]) -> T:
        raise InvalidOption("connection", "is not async: call the method without an a (enqueue, complete)")

    def explained(self, error: Exception) -> Exception:
        if isinstance(error, UnicodeEncodeError):
            return InvalidOption("connection", f"cannot carry this text: its client_encoding is {error.encoding}")
        found = self._guard.explained(error)
        return found if found is not error else unusable(error)


def unusable(error: Exception) -> InvalidOption:
    """For what a framework says of its own objects; of an error that wraps another, the wrapper shows all values."""
    cause = getattr(error, "orig", None) or error
    said = next((line for line in str(cause).splitlines() if line.strip()), "")
    return InvalidOption("connection", f"cannot be used here: {type(error).__name__}: {said}")


class SyncLoan(Loan):
    def __init__(self, kind: SyncKind, guard: Guard, seen: Seen, identity: IdentityQuery | None) -> None:
        super().__init__(guard, seen, identity)
        self._kind = kind

    def run(self, plan: Plan[T]) -> T:
        try:
            if self._kind.key not in self._seen:
                self._look()
            return run(plan, self._kind.execute)
        except RowcallError:
            raise
        except Exception as error:
            raise self.explained(error) from error

    def _look(self) -> None:
        known = self._guard.is_ready
        if not known:
            self._guard.prepare(self._identity)
        complaint = run(self._guard.check(self._identity), self._kind.execute)
        if complaint is not None and known:
            self._guard.prepare(self._identity)
            complaint = run(self._guard.check(self._identity), self._kind.execute)
        if complaint is not None:
            raise InvalidOption("connection", complaint)
        self._seen.add(self._kind.key)


class AsyncLoan(Loan):
    def __init__(self, kind: AsyncKind, guard: Guard, seen: Seen, identity: IdentityQuery | None) -> None:
        super().__init__(guard, seen, identity)
        self._kind = kind

    async def arun(self, plan: Plan[T]) -> T:
        try:
            await self._kind.ready()
            if self._kind.key not in self._seen:
                await self._look()
            return await self._finish(plan)
        except RowcallError:
            raise
        except Exception as error:
            raise self.explained(error) from error

    async def _finish(self, plan: Plan[T]) -> T:
        return await finish(self._whole(plan), patience_seconds=patience_on(self._guard))

    async def _whole(self, plan: Plan[T]) -> T:
        try:
            return await arun(plan, self._kind.execute)
        except asyncio.CancelledError:
            # a statement was given up, and the server may have run it all the same: nothing of this may be committed
            with contextlib.suppress(Exception):
                await self._kind.execute(_FAIL)
            raise

    async def _look(self) -> None:
        known, loop = self._guard.is_ready, asyncio.get_running_loop()
        if not known:
            await loop.run_in_executor(None, self._guard.prepare, self._identity)
        complaint = await self._finish(self._guard.check(self._identity))
        if complaint is not None and known:
            await loop.run_in_executor(None, self._guard.prepare, self._identity)
            complaint = await self._finish(self._guard.check(self._identity))
        if complaint is not None:
            raise InvalidOption("connection", complaint)
        self._seen.add(self._kind.key)
