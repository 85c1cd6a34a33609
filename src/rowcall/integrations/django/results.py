"""Jobs as results of Django's Tasks framework."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.core.exceptions import SuspiciousOperation
from django.utils.module_loading import import_string

from rowcall.domain.job import Attempt, Job, Status
from rowcall.integrations.django.framework import Task, TaskError, TaskResult, TaskResultStatus
from rowcall.integrations.django.site import local

STATUSES = {
    Status.BLOCKED: TaskResultStatus.READY,
    Status.SCHEDULED: TaskResultStatus.READY,
    Status.PENDING: TaskResultStatus.READY,
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
}
FAILED_ATTEMPTS = ("failed", "cancelled", "lost")
_RAISED = re.compile(r"^(?P<path>[A-Za-z_][\w.]*)(?::|$)", re.MULTILINE)
_CLASSES = {"cancelled": "rowcall.JobCancelled", "lost": "rowcall.LeaseLost"}


def task_of(job: Job) -> Task:
    """Return the task that a job calls. Its name in the row is the path of the task, and must lead to one."""
    task = import_string(job.type)
    if not isinstance(task, Task):
        raise SuspiciousOperation(f"job {job.id} is not a call of a Django task: {job.type!r} is {task!r}")
    return task


def result_of(job: Job, task: Task, attempts: Sequence[Attempt], backend: str) -> TaskResult:
    """Return the job as the framework shows it. An attempt of the job is one of the result, and each has a worker."""
    begun = [attempt for attempt in attempts if attempt.status not in ("released", "snoozed")]
    starts = [attempt.started_at or attempt.claimed_at for attempt in begun]
    result: TaskResult = TaskResult(
        task=task,
        id=str(job.id),
        status=STATUSES[job.status],
        enqueued_at=local(job.created_at),
        started_at=local(starts[0]) if starts else None,
        finished_at=local(job.finished_at),
        last_attempted_at=local(starts[-1]) if starts else None,
        args=job.payload.get("args") or [],
        kwargs=job.payload.get("kwargs") or {},
        backend=backend,
        errors=[_error(attempt) for attempt in begun if attempt.status in FAILED_ATTEMPTS],
        worker_ids=[attempt.worker or "" for attempt in begun],
    )
    if job.status is Status.CANCELLED and not result.errors:
        result.errors.append(TaskError(exception_class_path=_CLASSES["cancelled"], traceback=_said(job)))
    object.__setattr__(result, "_return_value", job.result)
    return result


def _error(attempt: Attempt) -> TaskError:
    traceback = attempt.traceback or _said(attempt)
    return TaskError(exception_class_path=_class_path(attempt), traceback=traceback)


def _class_path(attempt: Attempt) -> str:
    """Return the path of the exception's class, which the last line of a traceback begins with."""
    _, _, raised = (attempt.traceback or "").rpartition('\n  File "')
    for found in _RAISED.finditer(raised):
        return found["path"] if "." in found["path"] else f"builtins.{found['path']}"
    return _CLASSES.get(attempt.status, "rowcall.JobFailed")


def _said(failed: Job | Attempt) -> str:
    return f"{failed.error_code or failed.status}: {failed.error_detail or ''}\n"
