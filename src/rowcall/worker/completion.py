"""What the runs of a worker ask of the queue: completing a job inside its handler's own transaction, and blobs."""

from __future__ import annotations

from rowcall.lifecycle import SUCCESS
from rowcall.queue.blobs import on_loan
from rowcall.queue.core import Core
from rowcall.store.dialect import Dialect, Ready
from rowcall.store.plans.books import Books
from rowcall.store.plans.settle import complete
from rowcall.store.statement import Plan
from rowcall.worker.progress import Progress


class Completion:
    """Shared by all runs of a worker."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.progress = Progress(core)
        self.blobs = core.blobs

    def complete(self, ready: Ready, result: str | None, waited_ms: int, age_ms: int, connection: object) -> None:
        loan, dialect = self._core.lend(connection)
        stored = self.blobs.stored(ready.type, result)
        loan.run(self._plan(dialect, ready, stored, waited_ms, age_ms))

    async def acomplete(
        self, ready: Ready, result: str | None, waited_ms: int, age_ms: int, connection: object
    ) -> None:
        loan, dialect = await self._core.alend(connection)
        stored = await self.blobs.astored(ready.type, result)
        await loan.arun(self._plan(dialect, ready, stored, waited_ms, age_ms))

    def _plan(self, dialect: Dialect, ready: Ready, result: str | None, waited_ms: int, age_ms: int) -> Plan[None]:
        books = Books()
        books.enter(ready.queue, ready.type, ready.attempt, SUCCESS, waited_ms, age_ms)
        now_ms = self._core.now_ms()
        plan = complete(dialect, ready.id, ready.lease, result, age_ms, lambda settled: books.tallies(), now_ms)
        return on_loan(dialect, [result], plan)
