"""A transaction that stays open between plans, on its own connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from rowcall.store.statement import Plan

T = TypeVar("T")


class TransactionConnection(Protocol):
    """A connection on which a transaction was begun."""

    def run(self, plan: Plan[T]) -> T: ...
    def commit(self) -> None: ...
    def roll_back(self) -> None: ...
    def interrupt(self) -> None:
        """From another thread: cancel the statement that is running and may wait for a lock."""


class OpenTransaction:
    """Used by one thread at a time. `end` is called when the transaction is over.

    After an error of the database, the transaction can only be rolled back, to a savepoint or as a whole.
    """

    def __init__(self, session: TransactionConnection, end: Callable[[], None]) -> None:
        self._session = session
        self._end = end
        self._running: Plan[Any] | None = None
        self._interrupting = threading.Lock()

    def run(self, plan: Plan[T]) -> T:
        self._running = plan
        try:
            return self._session.run(plan)
        finally:
            with self._interrupting:  # otherwise the next statement could be interrupted
                self._running = None

    def interrupt(self, plan: Plan[Any]) -> None:
        """Cancel a plan that another thread runs here. The plan then fails."""
        with self._interrupting:
            if self._running is plan:
                self._session.interrupt()

    def commit(self) -> None:
        """End the transaction, even if this raises."""
        try:
            self._session.commit()
        finally:
            self._end()

    def roll_back(self) -> None:
        try:
            self._session.roll_back()
        finally:
            self._end()
