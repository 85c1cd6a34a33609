"""Run plans in a transaction that is open already: on the caller's connection, or in a block of `transaction()`."""

from __future__ import annotations

from typing import Protocol, TypeVar

from rowcall.domain.errors import InvalidOption, StoreUnavailable
from rowcall.drivers.transaction_block import Block
from rowcall.operations.steps import Blocking
from rowcall.queue import ForCallers, Operation, Queue, Step
from rowcall.store.dialect import Dialect
from rowcall.store.statement import Plan

T = TypeVar("T")


class Target(Protocol):
    """Runs plans in an open transaction."""

    def run(self, plan: Plan[T]) -> T: ...
    async def arun(self, plan: Plan[T]) -> T: ...


class OnCallerConnection(Step[T]):
    """Run a plan in the open transaction."""

    __slots__ = ("_plan", "_target")

    def __init__(self, target: Target, plan: Plan[T]) -> None:
        self._target = target
        self._plan = plan

    def run(self, queue: Queue) -> T:
        return self._target.run(self._plan)

    async def arun(self, queue: Queue) -> T:
        return await self._target.arun(self._plan)


def open_target(queue: Queue, connection: object) -> Operation[tuple[Target, Dialect]]:
    """Return what runs plans on that connection, and the dialect for it. An unusable connection is refused here."""
    if isinstance(connection, Block):
        if not connection.belongs_to(queue.database):
            raise InvalidOption("connection", "is a transaction of another queue")
        return connection, queue.dialect
    if queue.for_callers is None:
        queue.database.caller_connection(connection, None)
        yield from Blocking(_prepare, queue)
    assert queue.for_callers is not None
    dialect, identity = queue.for_callers
    return queue.database.caller_connection(connection, identity), dialect


def _prepare(queue: Queue) -> None:
    """Check the tables without waiting for long: the caller's own transaction may be in the way."""
    try:
        queue.ensure_schema(0.0)
    except StoreUnavailable as error:
        raise StoreUnavailable(
            f"the tables do not exist yet, and could not be made: {error.problem}",
            "Your own open transaction may be in the way: call jobs.migrate() once before it, when the app starts",
        ) from error
    dialect = queue.database.read(queue.dialect.for_caller())
    queue.for_callers = ForCallers(dialect, dialect.identity())


def several_statements(what: str) -> InvalidOption:
    """Return the error for a connection that commits each statement by itself."""
    return InvalidOption(
        "connection",
        f"has no transaction open, and commits each statement by itself, but {what} several statements;"
        " begin a transaction first, or leave connection= out",
    )
