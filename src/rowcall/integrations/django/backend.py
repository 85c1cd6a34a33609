"""`RowcallBackend`: Django's Tasks framework on a queue of Rowcall."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from django.apps import apps
from django.core import checks

from rowcall.app import queue_of
from rowcall.base.text import whole_number
from rowcall.declare.option_table import EnqueueOptions
from rowcall.domain.backoff import DEFAULT_BACKOFF, Backoff
from rowcall.domain.errors import InvalidArguments, JobNotFound
from rowcall.domain.job import Job
from rowcall.integrations.django.framework import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    normalize_json,
    task_enqueued,
)
from rowcall.integrations.django.handler import handler_of
from rowcall.integrations.django.queue import jobs
from rowcall.integrations.django.results import result_of, task_of
from rowcall.integrations.django.site import aware

NEVER = Backoff.constant(0, give_up_on=BaseException)
"""An exception ends a task, as the framework says. A worker that dies does not."""

_declared: dict[str, Mapping[str, object]] = {}
"""The options of the backend that each task was declared for, by the path of the task."""


class RowcallBackend(BaseTaskBackend):
    """Keeps Django's tasks as jobs: `TASKS = {"default": {"BACKEND": "rowcall.django.RowcallBackend"}}`.

    The name of a job's task is the path of the Django task, such as `shop.tasks.send_email`. `OPTIONS` may have
    `max_attempts` and `timeout`; without `max_attempts`, a task that raises an exception is not tried again.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task) -> None:
        super().validate_task(task)
        if task.module_path not in queue_of(jobs).declared.tasks:
            jobs.task(name=task.module_path, **self._attempts())(handler_of(task))
            _declared[task.module_path] = self.options

    def enqueue(self, task: Task, args: Sequence[object], kwargs: Mapping[str, object]) -> TaskResult:
        self.validate_task(task)
        job = jobs.enqueue(task.module_path, self._payload(task, args, kwargs), **self._options(task))
        # in a test with `immediate()`, it has run
        result = result_of(job, task, jobs.attempts(job.id) if job.attempt else [], self.alias)
        task_enqueued.send(type(self), task_result=result)
        return result

    async def aenqueue(self, task: Task, args: Sequence[object], kwargs: Mapping[str, object]) -> TaskResult:
        self.validate_task(task)
        job = await jobs.aenqueue(task.module_path, self._payload(task, args, kwargs), **self._options(task))
        result = result_of(job, task, await jobs.aattempts(job.id) if job.attempt else [], self.alias)
        await task_enqueued.asend(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        try:
            job = jobs.get(_job_id(result_id))
            return self._found(job, jobs.attempts(job.id) if job.attempt else [])
        except JobNotFound as error:
            raise TaskResultDoesNotExist(result_id) from error

    async def aget_result(self, result_id: str) -> TaskResult:
        try:
            job = await jobs.aget(_job_id(result_id))
            return self._found(job, await jobs.aattempts(job.id) if job.attempt else [])
        except JobNotFound as error:
            raise TaskResultDoesNotExist(result_id) from error

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        yield from super().check(**kwargs)
        if not apps.is_installed("rowcall.integrations.django"):
            yield checks.Error(
                f"TASKS[{self.alias!r}] is RowcallBackend, but its app is not installed.",
                hint="Add 'rowcall.django' to INSTALLED_APPS.",
                id="rowcall.E001",
            )

    def _attempts(self) -> dict[str, Any]:
        """Return the options about attempts, as `OPTIONS` of the backend say."""
        options = {"retry": NEVER}
        if "max_attempts" in self.options:
            options = {"retry": DEFAULT_BACKOFF, "max_attempts": self.options["max_attempts"]}
        if "timeout" in self.options:
            options["timeout"] = self.options["timeout"]
        return options

    def _options(self, task: Task) -> EnqueueOptions:
        options: EnqueueOptions = {"queue": task.queue_name, "priority": int(task.priority)}
        if task.run_after is not None:
            options["run_at"] = aware(task.run_after)
        if _declared[task.module_path] != self.options:  # of the backend that the task was declared for
            options |= cast(EnqueueOptions, self._attempts())
        return options

    def _payload(self, task: Task, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        _check_call(task, args, kwargs)
        payload: dict[str, object] = {"args": normalize_json(args), "kwargs": normalize_json(kwargs)}
        return payload if self.alias == "default" else {**payload, "backend": self.alias}

    def _found(self, job: Job, attempts: Sequence[Any]) -> TaskResult:
        backend = str(job.payload.get("backend", "default"))
        options = {"priority": job.priority, "queue_name": job.queue, "backend": backend}
        run_after = job.run_at if job.run_at > job.created_at and not attempts else None
        return result_of(job, task_of(job).using(**options, run_after=run_after), attempts, backend)


def _job_id(result_id: str) -> int:
    if (found := whole_number(str(result_id))) is None:
        raise TaskResultDoesNotExist(result_id)
    return found


def _check_call(task: Task, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Refuse arguments that the function cannot be called with, where the mistake is made."""
    try:
        inspect.signature(task.func).bind(*([None] if task.takes_context else []), *args, **kwargs)
    except TypeError as error:
        raise InvalidArguments(task.module_path, str(error)) from None
