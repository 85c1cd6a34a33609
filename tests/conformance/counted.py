"""Count the statements of a call while it runs on the real database."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.drivers.database import MakePlan
from rowcall.store.statement import Plan

T = TypeVar("T")


@contextlib.contextmanager
def statements_of(jobs: Rowcall) -> Iterator[list[str]]:
    """The statements of all writes of this queue within the block."""
    seen: list[str] = []
    write = queue_of(jobs).database.write

    def counted(plan: Plan[T]) -> Plan[T]:
        try:
            statement = next(plan)
            while True:
                seen.append(statement.sql)
                statement = plan.send((yield statement))
        except StopIteration as stop:
            result: T = stop.value
            return result

    def counting(make_plan: MakePlan[T], *, once: bool = False) -> T:
        return write(lambda: counted(make_plan()), once=once)

    queue_of(jobs).database.write = counting  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        del queue_of(jobs).database.write
