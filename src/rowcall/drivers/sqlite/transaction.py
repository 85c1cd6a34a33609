"""A transaction on a SQLite file that stays open between plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.store.statement import Plan, Statement, execute, no_row

T = TypeVar("T")


class SqliteTransaction:
    """`give_back` takes the connection when the transaction is over."""

    def __init__(self, connection: SqliteConnection, give_back: Callable[[], None]) -> None:
        self._connection = connection
        self._give_back = give_back

    def run(self, plan: Plan[T]) -> T:
        if not self._connection.in_transaction:  # a full disk, for one, makes SQLite roll back by itself
            plan.close()
            raise StoreUnavailable("SQLite has rolled the transaction back by itself", "Begin anew")
        return self._connection.run(plan)

    def interrupt(self, plan: Plan[Any]) -> None:
        """Nothing waits in here: the only lock there is was taken at the beginning."""

    def savepoint(self, name: str) -> None:
        self._say(f"savepoint {name}")

    def release(self, name: str) -> None:
        self._say(f"release {name}")

    def roll_back_to(self, name: str) -> None:
        self._say(f"rollback to {name}")
        self._say(f"release {name}")

    def commit(self) -> None:
        try:
            if not self._connection.in_transaction:
                raise StoreUnavailable("SQLite has rolled the transaction back by itself", "Nothing was written")
            self._connection.end(commit=True)
        finally:
            self._give_back()

    def roll_back(self) -> None:
        try:
            self._connection.end(commit=False)
        finally:
            self._give_back()

    def _say(self, sql: str) -> None:
        self.run(execute(Statement(sql, (), no_row)))
