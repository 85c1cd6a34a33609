"""A transaction on a PostgreSQL server that stays open between plans."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from rowcall.drivers.postgres.connection import Session
from rowcall.store.statement import Plan, Statement, execute, no_row

T = TypeVar("T")

LONGEST_SILENCE_SECONDS = 60
"""How long nothing may be said in it before the server ends it, with its locks."""


class PostgresTransaction:
    """`give_back` takes the connection when the transaction is over."""

    def __init__(self, session: Session, give_back: Callable[[], None]) -> None:
        self._session = session
        self._give_back = give_back
        self._running: Plan[Any] | None = None
        self._interrupting = threading.Lock()

    def run(self, plan: Plan[T]) -> T:
        self._running = plan
        try:
            return self._session.read(plan)
        finally:
            with self._interrupting:  # else what comes next could be interrupted
                self._running = None

    def interrupt(self, plan: Plan[Any]) -> None:
        with self._interrupting:
            if self._running is plan:
                self._session.interrupt()

    def savepoint(self, name: str) -> None:
        self._say(f"savepoint {name}")

    def release(self, name: str) -> None:
        self._say(f"release savepoint {name}")

    def roll_back_to(self, name: str) -> None:
        self._say(f"rollback to savepoint {name}")
        self._say(f"release savepoint {name}")

    def commit(self) -> None:
        try:
            self._session.commit()
        finally:
            self._give_back()

    def roll_back(self) -> None:
        try:
            self._session.roll_back()
        finally:
            self._give_back()

    def _say(self, sql: str) -> None:
        self.run(execute(Statement(sql, (), no_row)))
