"""Completing a job inside its handler's own transaction."""

from __future__ import annotations

from rowcall.queue.core import Core
from rowcall.store.dialect import Ready
from rowcall.store.plans.settle import complete


class Completion:
    """Shared by all runs of a worker."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def complete(self, ready: Ready, result: str | None, started_age_ms: int, connection: object) -> None:
        loan, dialect = self._core.lend(connection)
        loan.run(complete(dialect, ready.id, ready.lease, result, started_age_ms, self._core.now_ms()))

    async def acomplete(self, ready: Ready, result: str | None, started_age_ms: int, connection: object) -> None:
        loan, dialect = await self._core.alend(connection)
        await loan.arun(complete(dialect, ready.id, ready.lease, result, started_age_ms, self._core.now_ms()))
