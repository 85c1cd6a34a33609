"""A plan on a separate connection, one statement at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import psycopg

from rowcall.store.statement import Plan

PLENTY = 1000
StepConnection = psycopg.Connection[tuple[Any, ...]]


def stepping_connection(url: str) -> StepConnection:
    return psycopg.connect(url, cursor_factory=psycopg.RawCursor)


class Stepper:
    """Begins with its first statement, and commits on request. A long wait for a lock raises an error.

    It opens and closes its own connection, unless it is given one by `stepping_connection`.
    """

    def __init__(
        self,
        database: str | StepConnection,
        plan: Plan[Any],
        *,
        patience: str = "5s",
        isolation: str = "read committed",
    ) -> None:
        self._closes = isinstance(database, str)
        self._connection = stepping_connection(database) if isinstance(database, str) else database
        self._connection.execute(f"set lock_timeout = '{patience}'".encode())
        self._connection.commit()
        self._connection.execute(f"set transaction isolation level {isolation}".encode())
        self._plan = plan
        self._next = next(plan, None)
        self.result: Any = None
        self.steps = 0

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            if self._next is None:
                return
            cursor = self._connection.execute(self._next.sql, self._next.parameters)
            rows = cursor.fetchall() if cursor.description is not None else []
            self.steps += 1
            try:
                self._next = self._plan.send(rows)
            except StopIteration as stop:
                self._next, self.result = None, stop.value

    def finish(self) -> Any:
        """The rest, and the commit."""
        self.step(PLENTY)
        assert self._next is None
        self._connection.commit()
        return self.result

    def __enter__(self) -> Stepper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._plan.close()
        if self._closes:
            self._connection.close()
        else:
            self._connection.rollback()


class InThread:
    """Something that runs in a thread, and may have to wait there."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._error: BaseException | None = None
        self._result: Any = None
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error

    def join(self) -> Any:
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._result


def statements_in(url: str, make_plan: Callable[[], Plan[Any]]) -> int:
    """Return how many statements a plan takes without concurrent transactions, and roll it back."""
    with Stepper(url, make_plan()) as alone:
        alone.step(PLENTY)
        return alone.steps
