"""An attempt as its handler sees it in a child process: what it says goes to the worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

from rowcall.context import Context
from rowcall.job import Job
from rowcall.payload import result_to_json
from rowcall.queue.by_hand import job_of
from rowcall.queue.core import Core
from rowcall.worker.completion import Completion
from rowcall.worker.messages import Completed, Order, Progressed, ToWorker


class ChildAttempt:
    def __init__(self, order: Order, core: Core | None, send: Callable[[ToWorker], None]) -> None:
        self.ready = order.ready
        self.cancelled = False
        self.saw_cancelled = False
        self.context = Context(self)
        self._order = order
        self._core = core
        self._send = send
        self._began_at = time.monotonic()

    @property
    def log_fields(self) -> dict[str, object]:
        ready = self.ready
        fields = {"job_id": ready.id, "job_type": ready.type, "job_queue": ready.queue, "job_attempt": ready.attempt}
        return {**fields, "worker": self._order.worker}

    def claimed_job(self) -> Job:
        return job_of(self.ready, self._order.worker, self._order.claimed_at_ms)

    def claimed_jobs(self) -> list[Job]:
        return [self.claimed_job()]

    def report(self, share: float, message: str | None) -> None:
        self._send(Progressed(share, message))

    def complete(self, result: object, connection: object) -> None:
        completion, given = self._completion(), result_to_json(self.ready.type, result)
        completion.complete(self.ready, given, self._waited_ms, self._age_ms, connection)
        self._send(Completed())

    async def acomplete(self, result: object, connection: object) -> None:
        completion, given = self._completion(), result_to_json(self.ready.type, result)
        await completion.acomplete(self.ready, given, self._waited_ms, self._age_ms, connection)
        self._send(Completed())

    @property
    def _waited_ms(self) -> int:
        return self._order.claimed_at_ms - self.ready.run_at_ms

    @property
    def _age_ms(self) -> int:
        return int((time.monotonic() - self._began_at) * 1000)

    def _completion(self) -> Completion:
        if self._core is None:
            raise RuntimeError(
                "ctx.complete in a child process wants the task to be declared by the module of its function, "
                "as the child learns from it where the queue is"
            )
        return Completion(self._core)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name} is not possible in a child process (isolation='process')")
