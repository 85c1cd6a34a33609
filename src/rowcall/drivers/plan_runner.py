"""Drive a plan: send it rows until it returns a result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from rowcall.store.statement import Plan, Row, Statement

T = TypeVar("T")

Execute = Callable[[Statement[object]], list[Row]]
AsyncExecute = Callable[[Statement[object]], Awaitable[list[Row]]]


def run(plan: Plan[T], execute: Execute) -> T:
    """Run a plan to its end. A database error goes to the caller, never into the plan."""
    try:
        statement = next(plan)
        while True:
            statement = plan.send(execute(statement))
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        plan.close()


async def arun(plan: Plan[T], execute: AsyncExecute) -> T:
    """Do what `run` does, on a connection that is awaited."""
    try:
        statement = next(plan)
        while True:
            statement = plan.send(await execute(statement))
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        plan.close()
