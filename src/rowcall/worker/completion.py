"""Completing a job inside its handler's own transaction."""

from __future__ import annotations

from rowcall.queue.core import Core
from rowcall.store.dialect import Ready
from rowcall.store.plans.settle import complete
from rowcall.store.statement import Plan


class Completion:
    """Shared by all runs of a worker."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def complete(self, ready: Ready, result: str | None, started_age_ms: int, connection: object) -> None:
        self._core.lend(connection).run(self._plan(ready, result, started_age_ms))

    async def acomplete(self, ready: Ready, result: str | None, started_age_ms: int, connection: object) -> None:
        loan = await self._core.alend(connection)
        await loan.arun(self._plan(ready, result, started_age_ms))

    def _plan(self, ready: Ready, result: str | None, started_age_ms: int) -> Plan[None]:
        core = self._core
        return complete(core.dialect, ready.id, ready.lease, result, started_age_ms, core.now_ms())
