"""Our backend, with what tests of Django expect of the backends that they are written for."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections

from rowcall.django import RowcallBackend, jobs, run_jobs
from rowcall.integrations.django.connection import in_thread


class DummyBackend(RowcallBackend):
    """Lists what was enqueued, as Django's own does."""

    @property
    def results(self) -> list[Any]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._listed()
        with ThreadPoolExecutor(1) as thread:  # for async tests: Django refuses this on an event loop
            return thread.submit(self._listed_in_thread).result()

    def _listed(self) -> list[Any]:
        return [self.get_result(str(job.id)) for job in reversed(jobs.list().jobs)]

    def _listed_in_thread(self) -> list[Any]:
        try:
            return self._listed()
        finally:
            connections.close_all()

    def clear(self) -> None:
        jobs.clear()


class ImmediateBackend(RowcallBackend):
    """Runs tasks at once, as Django's own does."""

    def enqueue(self, *args: Any, **kwargs: Any) -> Any:
        result = super().enqueue(*args, **kwargs)
        run_jobs(raise_errors=False)
        return self.get_result(result.id)

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Any:
        result = await super().aenqueue(*args, **kwargs)
        await in_thread(lambda: run_jobs(raise_errors=False))
        return await self.aget_result(result.id)
