"""Completing a job inside its handler's own transaction."""

from __future__ import annotations

from rowcall.lifecycle import SUCCESS
from rowcall.queue.core import Core
from rowcall.store.dialect import Dialect, Ready
from rowcall.store.plans.books import Books
from rowcall.store.plans.settle import complete
from rowcall.store.statement import Plan


class Completion:
    """Shared by all runs of a worker."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def complete(self, ready: Ready, result: str | None, waited_ms: int, age_ms: int, connection: object) -> None:
        loan, dialect = self._core.lend(connection)
        loan.run(self._plan(dialect, ready, result, waited_ms, age_ms))

    async def acomplete(
        self, ready: Ready, result: str | None, waited_ms: int, age_ms: int, connection: object
    ) -> None:
        loan, dialect = await self._core.alend(connection)
        await loan.arun(self._plan(dialect, ready, result, waited_ms, age_ms))

    def _plan(self, dialect: Dialect, ready: Ready, result: str | None, waited_ms: int, age_ms: int) -> Plan[None]:
        books = Books()
        books.enter(ready.queue, ready.type, ready.attempt, SUCCESS, waited_ms, age_ms)
        now_ms = self._core.now_ms()
        return complete(dialect, ready.id, ready.lease, result, age_ms, lambda settled: books.tallies(), now_ms)
