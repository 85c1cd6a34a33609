"""What the runs of a worker ask of the queue: completing a job inside its handler's own transaction, and blobs."""

from __future__ import annotations

from rowcall.queue.blobs import on_loan
from rowcall.queue.core import Core
from rowcall.store.dialect import Ready
from rowcall.store.plans.settle import complete


class Completion:
    """Shared by all runs of a worker."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.blobs = core.blobs

    def complete(self, ready: Ready, result: str | None, started_age_ms: int, connection: object) -> None:
        loan, dialect = self._core.lend(connection)
        stored = self.blobs.stored(ready.type, result)
        plan = complete(dialect, ready.id, ready.lease, stored, started_age_ms, self._core.now_ms())
        loan.run(on_loan(dialect, [stored], plan))

    async def acomplete(self, ready: Ready, result: str | None, started_age_ms: int, connection: object) -> None:
        loan, dialect = await self._core.alend(connection)
        stored = await self.blobs.astored(ready.type, result)
        plan = complete(dialect, ready.id, ready.lease, stored, started_age_ms, self._core.now_ms())
        await loan.arun(on_loan(dialect, [stored], plan))
