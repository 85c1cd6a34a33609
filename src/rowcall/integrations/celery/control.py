"""`app.control`: revoke jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rowcall.app import Rowcall
from rowcall.integrations.celery.result import AsyncResult

ADVICE = {
    "inspect": "jobs.list(status='running'), jobs.workers()",
    "purge": "jobs.cancel(all=True)",
    "rate_limit": "Limit(…, rate=…)",
    "add_consumer": "rowcall work --queues",
    "cancel_consumer": "jobs.pause(queue)",
    "ping": "jobs.workers()",
    "shutdown": "SIGTERM",
}


class CeleryControl:
    """Has `revoke`. Other commands raise `AttributeError`, with what to use instead."""

    def __init__(self, jobs: Rowcall) -> None:
        self._jobs = jobs

    def revoke(
        self, task_id: str | int | Iterable[str], terminate: bool = False, signal: str | None = None, **options: object
    ) -> None:
        """Cancel jobs by their ids; running ones are asked to stop. Jobs that have ended stay as they are."""
        for one in [task_id] if isinstance(task_id, str | int) else task_id:
            AsyncResult(one, self._jobs).revoke()

    def terminate(self, task_id: str | int | Iterable[str], signal: str | None = None, **options: object) -> None:
        """`revoke`."""
        self.revoke(task_id)

    def __getattr__(self, name: str) -> Any:
        advice = f"use {ADVICE[name]}" if name in ADVICE else "see docs/from-celery.md"
        raise AttributeError(f"app.control.{name} is not there in Rowcall; {advice}")
