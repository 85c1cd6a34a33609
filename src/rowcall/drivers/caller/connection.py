"""A caller's connection: checked once, then it runs plans inside the caller's own transaction."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from functools import partial
from typing import Any, TypeVar

from rowcall.base.effects import adrive, drive
from rowcall.domain.errors import InvalidOption, RowcallError
from rowcall.drivers.caller.adapter import Adapter, AsyncAdapter, SyncAdapter
from rowcall.drivers.caller.kinds import KNOWN, adapter_for
from rowcall.drivers.caller.same_database import IdentityQuery, QueueDatabase
from rowcall.drivers.uncancellable import LOCK_PATIENCE_SECONDS, finish
from rowcall.store.statement import Plan, Statement, as_is

T = TypeVar("T")

_FAIL = Statement("select 1 / 0", (), as_is)
_UNKNOWN = "the identity of the queue's database is not known yet"


class CallerConnections:
    """The connections that are passed as `connection=` to one queue."""

    def __init__(self, home: QueueDatabase) -> None:
        self._home = home
        self._checked = _Checked()

    def wrap(self, connection: object, query: IdentityQuery | None) -> CallerConnection:
        """Return the connection, ready to run plans inside the caller's transaction, or raise `InvalidOption`.

        `query` is asked on it, and on a connection of the queue, to check that both lead to the same database.
        """
        try:
            adapter = adapter_for(connection)
            leads_to = adapter.database if adapter is not None else ""
        except InvalidOption:
            raise
        except Exception as error:
            raise _explained(error, self._home) from error
        if adapter is None:
            name = f"{type(connection).__module__}.{type(connection).__name__}"
            if any(word in type(connection).__name__.lower() for word in ("engine", "pool", "maker")):
                raise InvalidOption("connection", f"{name} only makes connections: pass one of them")
            raise InvalidOption("connection", f"must be one of {KNOWN}; got {name}")
        if leads_to != self._home.database:
            raise InvalidOption("connection", f"leads to {leads_to}, but this queue is in {self._home.name}")
        return CallerConnection(adapter, self._home, self._checked, query)


class CallerConnection:
    """One connection, for one call."""

    def __init__(
        self, adapter: Adapter[Any], home: QueueDatabase, checked: _Checked, query: IdentityQuery | None
    ) -> None:
        self._adapter = adapter
        self._home = home
        self._checked = checked
        self._query = query

    def run(self, plan: Plan[T]) -> T:
        adapter = self._adapter
        if not isinstance(adapter, SyncAdapter):
            raise InvalidOption("connection", "is async: call the method with an a in front (aenqueue, acomplete)")
        try:
            if adapter.key not in self._checked:
                self._check(adapter)
            result = drive(plan, adapter.execute)
        except RowcallError:
            raise
        except Exception as error:
            raise _explained(error, self._home) from error
        self._home.note_written()
        return result

    def _check(self, adapter: SyncAdapter[Any]) -> None:
        home, query = self._home, self._query
        problem = drive(home.check(query), adapter.execute) if home.is_known else _UNKNOWN
        if problem is not None:
            home.learn(query)
            problem = drive(home.check(query), adapter.execute)
        self._accept(problem)

    async def arun(self, plan: Plan[T]) -> T:
        adapter = self._adapter
        if isinstance(adapter, SyncAdapter):
            return await adapter.in_its_thread(partial(self.run, plan))
        assert isinstance(adapter, AsyncAdapter)
        try:
            await adapter.ready()
            if adapter.key not in self._checked:
                await self._acheck(adapter)
            result = await self._finish(plan, adapter)
        except RowcallError:
            raise
        except Exception as error:
            raise _explained(error, self._home) from error
        self._home.note_written()
        return result

    async def _acheck(self, adapter: AsyncAdapter[Any]) -> None:
        home, query = self._home, self._query
        problem = await self._finish(home.check(query), adapter) if home.is_known else _UNKNOWN
        if problem is not None:
            await asyncio.get_running_loop().run_in_executor(None, home.learn, query)
            problem = await self._finish(home.check(query), adapter)
        self._accept(problem)

    def _accept(self, problem: str | None) -> None:
        if problem is not None:
            raise InvalidOption("connection", problem)
        self._checked.add(self._adapter.key)

    async def _finish(self, plan: Plan[T], adapter: AsyncAdapter[Any]) -> T:
        # On a server, a statement may wait for any lock. SQLite has its own time limit, and its statement runs in a
        # thread, where it cannot be cancelled.
        patience = LOCK_PATIENCE_SECONDS if self._home.database != "sqlite" else None
        return await finish(_whole(plan, adapter), patience_seconds=patience)


class _Checked:
    """The connections that need no second check, for as long as they live."""

    def __init__(self) -> None:
        self._keys: weakref.WeakSet[object] = weakref.WeakSet()
        self._files: set[str] = set()

    def __contains__(self, key: object) -> bool:
        if type(key) is str:
            return key in self._files
        return key is not None and key in self._keys

    def add(self, key: object) -> None:
        if type(key) is str:
            self._files.add(key)
        elif key is not None:
            with contextlib.suppress(TypeError):  # without weak references, it is checked every time
                self._keys.add(key)


async def _whole(plan: Plan[T], adapter: AsyncAdapter[Any]) -> T:
    try:
        return await adrive(plan, adapter.execute)
    except asyncio.CancelledError:
        # the server may have run the statement that was cancelled: the transaction must not be committed
        with contextlib.suppress(Exception):
            await adapter.execute(_FAIL)
        raise


def _explained(error: Exception, home: QueueDatabase) -> Exception:
    if isinstance(error, UnicodeEncodeError):
        return InvalidOption("connection", f"cannot carry this text: its client_encoding is {error.encoding}")
    found = home.explained(error)
    if found is not error:
        return found
    # an error of the framework; the text of a wrapper shows all parameters, so use the text of what it wraps
    cause = getattr(error, "orig", None) or error
    message = next((line for line in str(cause).splitlines() if line.strip()), "")
    return InvalidOption("connection", f"cannot be used: {type(error).__name__}: {message}")
