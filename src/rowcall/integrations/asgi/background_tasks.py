"""Background tasks that survive a restart of the app."""

from __future__ import annotations

from typing import ParamSpec

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import Job
from rowcall.operations.enqueue import Bound, enqueue_each
from rowcall.queue import Queue
from rowcall.task import Enqueuer

P = ParamSpec("P")


class Tasks:
    """Collects calls of tasks, and enqueues them together when the block ends without an exception.

        async with Tasks() as background:
            background.add_task(send_email, "a@example.com", subject="Welcome")

    Use it like Starlette's `BackgroundTasks`. The jobs are written before the response is sent, and workers run them.
    """

    def __init__(self) -> None:
        self._calls: dict[Queue, list[Bound]] = {}

    def add_task(self, task: Enqueuer[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Add a call of a task, or of `task.using(…)`. Wrong arguments raise `InvalidArguments` here."""
        if not isinstance(task, Enqueuer):
            raise InvalidOption("task", f"must be a task: declare the function with @jobs.task, got {task!r}")
        self._calls.setdefault(task._queue, []).append(task.bind(*args, **kwargs))

    async def enqueue(self) -> list[Job]:
        """Write the jobs that were added, in one transaction for each queue, and return them."""
        calls, self._calls = self._calls, {}
        return [job for queue, bound in calls.items() for job in await queue.arun(enqueue_each(queue, bound))]

    async def __aenter__(self) -> Tasks:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            await self.enqueue()
