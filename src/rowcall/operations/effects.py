"""The effects of operations: `Queue.run` runs them at once, `Queue.arun` without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from rowcall.base.effects import Effect
from rowcall.domain.errors import InvalidOption, StoreUnavailable
from rowcall.drivers.caller.adapter import several_statements
from rowcall.drivers.patience import same_patience
from rowcall.drivers.transaction_block import Block, innermost_connection
from rowcall.drivers.uncancellable import finish
from rowcall.queue import ForCallers, Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.queries.jobs import NOTIFY
from rowcall.store.statement import Plan

T = TypeVar("T")
P = ParamSpec("P")


class EnsureSchema(Effect[Queue, None]):
    """Make or check the tables, once per process."""

    def run(self, queue: Queue) -> None:
        queue.backend.ensure_schema()

    async def arun(self, queue: Queue) -> None:
        await queue.backend.aensure_schema()


class Read(Effect[Queue, T]):
    """Run a plan that only reads. With `snapshot`, all its statements see the same moment."""

    __slots__ = ("_plan", "_snapshot", "seconds")

    def __init__(self, plan: Plan[T], *, snapshot: bool = False) -> None:
        self._plan = plan
        self._snapshot = snapshot
        self.seconds: float | None = None

    def run(self, queue: Queue) -> T:
        queue.backend.ensure_schema()
        return queue.backend.opened(queue.database.read(self._plan, snapshot=self._snapshot, seconds=self.seconds))

    async def arun(self, queue: Queue) -> T:
        await queue.backend.aensure_schema()
        return queue.backend.opened(
            await queue.database.aread(self._plan, snapshot=self._snapshot, seconds=self.seconds)
        )


def reading_within(operation: Operation[T], seconds: float) -> Operation[T]:
    """Run an operation of which no read may take longer."""
    try:
        effect = next(operation)
        while True:
            if isinstance(effect, Read):
                effect.seconds = seconds
            try:
                result = yield effect
            except BaseException as error:
                effect = operation.throw(error)
            else:
                effect = operation.send(result)
    except StopIteration as stop:
        returned: T = stop.value
        return returned


class Write(Effect[Queue, T]):
    """Run a plan in a transaction. The plan is made by a function: after a conflict, another one is made."""

    __slots__ = ("_make_plan",)

    def __init__(self, make_plan: Callable[P, Plan[T]], *args: P.args, **kwargs: P.kwargs) -> None:
        self._make_plan = partial(make_plan, *args, **kwargs)

    def run(self, queue: Queue) -> T:
        queue.backend.check_may_write()
        queue.backend.check_outside_block()
        queue.backend.ensure_schema()
        return queue.backend.opened(queue.database.write(self._make_plan))

    async def arun(self, queue: Queue) -> T:
        queue.backend.check_may_write()
        queue.backend.check_outside_block()
        await queue.backend.aensure_schema()
        return queue.backend.opened(await queue.database.awrite(self._make_plan))


class Blocking(Effect[Queue, T]):
    """Call a function that may block; in async code, in a thread."""

    def __init__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
        self._function = partial(function, *args, **kwargs)

    def run(self, queue: Queue) -> T:
        return self._function()

    async def arun(self, queue: Queue) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, same_patience(self._function))


class Sleep(Effect[Queue, None]):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, queue: Queue) -> None:
        queue.clock.sleep(self._seconds)

    async def arun(self, queue: Queue) -> None:
        await queue.clock.asleep(self._seconds)


class Uninterrupted(Effect[Queue, T]):
    """Run an operation to its end, even if the task is cancelled before it; then raise the cancellation."""

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation

    def run(self, queue: Queue) -> T:
        return queue.run(self._operation)

    async def arun(self, queue: Queue) -> T:
        return await finish(queue.arun(self._operation))


class FindSurrounding(Effect[Queue, object]):
    """Return the connection of the transaction that the app's framework has open here, or None."""

    def run(self, queue: Queue) -> object:
        assert queue.backend.surrounding is not None
        return queue.backend.surrounding.find()

    async def arun(self, queue: Queue) -> object:
        assert queue.backend.surrounding is not None
        return await queue.backend.surrounding.afind()


class PlanTarget(Protocol):
    """Runs plans in an open transaction."""

    def run(self, plan: Plan[T]) -> T: ...
    async def arun(self, plan: Plan[T]) -> T: ...


class OnCallerConnection(Effect[Queue, T]):
    """Run a plan in the open transaction."""

    __slots__ = ("_plan", "_target")

    def __init__(self, target: PlanTarget, plan: Plan[T]) -> None:
        self._target = target
        self._plan = plan

    def run(self, queue: Queue) -> T:
        return queue.backend.opened(self._target.run(self._plan))

    async def arun(self, queue: Queue) -> T:
        return queue.backend.opened(await self._target.arun(self._plan))


def joined(queue: Queue, connection: object) -> Operation[object]:
    """Return the connection that a call uses: the given one, or that of the open transaction that it joins here."""
    if connection is None:
        connection = innermost_connection(queue.database)
    if connection is None and queue.backend.surrounding is not None:
        connection = yield from FindSurrounding()
    return connection


def open_target(queue: Queue, connection: object) -> Operation[tuple[PlanTarget, Dialect]]:
    """Return what runs plans on that connection, and the dialect for it. An unusable connection is refused here."""
    if isinstance(connection, Block):
        if not connection.belongs_to(queue.database):
            raise InvalidOption("connection", "is a transaction of another queue")
        return connection, queue.dialect
    if queue.backend.for_callers is None:
        queue.database.caller_connections.wrap(connection, None)
        yield from Blocking(_prepare, queue)
    assert queue.backend.for_callers is not None
    dialect, identity = queue.backend.for_callers
    return queue.database.caller_connections.wrap(connection, identity), dialect


def read(
    queue: Queue,
    connection: object,
    make_plan: Callable[Concatenate[Dialect, P], Plan[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Operation[T]:
    """Run a plan that only reads: on a connection of the queue, where its statements see the same moment, or on the
    caller's, where it sees what that transaction has written.
    """
    connection = yield from joined(queue, connection)
    if connection is None:
        return (yield from Read(make_plan(queue.dialect, *args, **kwargs), snapshot=True))
    target, dialect = yield from open_target(queue, connection)
    return (yield from OnCallerConnection(target, make_plan(dialect, *args, **kwargs)))


def write(
    queue: Queue,
    connection: object,
    make_plan: Callable[Concatenate[Dialect, P], Plan[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Operation[T]:
    """Run a plan in a transaction: one of the queue, or the caller's, which commits it or rolls it back."""
    connection = yield from joined(queue, connection)
    if connection is None:
        return (yield from Write(make_plan, queue.dialect, *args, **kwargs))
    queue.backend.check_may_write()
    target, dialect = yield from open_target(queue, connection)
    if not (yield from OnCallerConnection(target, dialect.holds_together())):
        raise several_statements("this call takes")
    plan = make_plan(dialect, *args, **kwargs)
    if not isinstance(target, Block):  # the queue's own connection notifies after its commit
        plan = _notifying(dialect, plan)
    return (yield from OnCallerConnection(target, plan))


def _notifying(dialect: Dialect, plan: Plan[T]) -> Plan[T]:
    """Run a plan; if it made jobs ready, notify idle workers when the transaction is committed."""
    must_notify = False

    def noting() -> Plan[T]:
        nonlocal must_notify
        try:
            statement = next(plan)
            while True:
                rows = yield statement
                must_notify |= statement.notifies is not None and statement.notifies(rows)
                statement = plan.send(rows)
        except StopIteration as stop:
            returned: T = stop.value
            return returned

    result = yield from noting()
    if must_notify:
        yield from dialect.ask(NOTIFY)
    return result


def _prepare(queue: Queue) -> None:
    """Check the tables without waiting for long: the caller's own transaction may be in the way."""
    try:
        queue.backend.ensure_schema(0.0)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"the tables could not be checked, or made: {error.problem}",
            "Your own open transaction may be in the way: call jobs.migrate() once before it, when the app starts",
        ) from error
    dialect = queue.database.read(queue.dialect.for_caller())
    queue.backend.for_callers = ForCallers(dialect, dialect.identity())
