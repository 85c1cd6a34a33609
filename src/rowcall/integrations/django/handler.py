"""What a worker calls for a Django task: the function, between the signals of the framework."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from traceback import format_exception
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.utils import timezone

from rowcall.context import Context
from rowcall.domain.errors import Cancel, Control, Fail
from rowcall.domain.job import Attempt
from rowcall.domain.payload import parameters_of
from rowcall.integrations.django.framework import (
    Task,
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from rowcall.integrations.django.queue import jobs
from rowcall.integrations.django.results import result_of
from rowcall.observe.shown_exceptions import drop_callers
from rowcall.overview.tasks import shown_as

Handler = Callable[..., object]
Args = list[Any] | None
Kwargs = dict[str, Any] | None


def handler_of(task: Task) -> Handler:
    """Return the handler for a task."""
    function, takes_context = task.func, task.takes_context

    def given(result: TaskResult) -> list[object]:
        return [TaskContext(task_result=result), *result.args] if takes_context else list(result.args)

    def handle(ctx: Context, args: Args = None, kwargs: Kwargs = None, backend: str = "default") -> object:
        result = _started(ctx, task, backend, jobs.attempts(ctx.job.id) if ctx.job.attempt > 1 else [])
        task_started.send(type(task.get_backend()), task_result=result)
        try:
            value = normalize_json(function(*given(result), **result.kwargs))
        except BaseException as error:
            if _fail(ctx, result, error):
                task_finished.send(type(task.get_backend()), task_result=result)
            raise
        _succeed(result, value)
        task_finished.send(type(task.get_backend()), task_result=result)
        return value

    async def ahandle(ctx: Context, args: Args = None, kwargs: Kwargs = None, backend: str = "default") -> object:
        earlier = await jobs.aattempts(ctx.job.id) if ctx.job.attempt > 1 else []
        result = _started(ctx, task, backend, earlier)
        await task_started.asend(type(task.get_backend()), task_result=result)
        try:
            value = normalize_json(await function(*given(result), **result.kwargs))
        except BaseException as error:
            if _fail(ctx, result, error):
                await task_finished.asend(type(task.get_backend()), task_result=result)
            raise
        _succeed(result, value)
        await task_finished.asend(type(task.get_backend()), task_result=result)
        return value

    parameters = parameters_of(function)[1 if takes_context else 0 :]
    return shown_as(ahandle if iscoroutinefunction(function) else handle, function, parameters)


def _started(ctx: Context, task: Task, backend: str, attempts: Sequence[Attempt]) -> TaskResult:
    job = ctx.job
    assert job.claimed_at is not None
    earlier = [attempt for attempt in attempts if attempt.attempt < job.attempt]
    now = Attempt(job_id=job.id, attempt=job.attempt, status=job.status, claimed_at=job.claimed_at, worker=job.worker)
    options = {"priority": job.priority, "queue_name": job.queue, "backend": backend}
    return result_of(job, task.using(**options), [*earlier, now], backend)


def _succeed(result: TaskResult, value: object) -> None:
    _finish(result, TaskResultStatus.SUCCESSFUL)
    object.__setattr__(result, "_return_value", value)


def _fail(ctx: Context, result: TaskResult, error: BaseException) -> bool:
    """Note the error, and return whether the task has failed by it; otherwise it will be tried again."""
    path = f"{type(error).__module__}.{type(error).__qualname__}"
    result.errors.append(TaskError(exception_class_path=path, traceback="".join(format_exception(drop_callers(error)))))
    if not _is_final(ctx, result, error):
        return False
    _finish(result, TaskResultStatus.FAILED)
    return True


def _is_final(ctx: Context, result: TaskResult, error: BaseException) -> bool:
    if isinstance(error, CancelledError | KeyboardInterrupt):  # by a timeout, a request, or the end of the worker
        return False
    if isinstance(error, Control):
        return isinstance(error, Fail | Cancel)
    retries = "max_attempts" in result.task.get_backend().options
    return not retries or ctx.job.attempt >= ctx.job.max_attempts


def _finish(result: TaskResult, status: TaskResultStatus) -> None:
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", timezone.now())
