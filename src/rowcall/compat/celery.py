"""What Celery apps import, on top of Rowcall. See docs/from-celery.md."""

from builtins import TimeoutError
from typing import NoReturn, cast

from rowcall.domain.errors import JobCancelled as TaskRevokedError
from rowcall.domain.errors import Retry
from rowcall.domain.errors import StoreUnavailable as OperationalError
from rowcall.domain.errors import UnknownTask as NotRegistered
from rowcall.integrations.celery import current, states
from rowcall.integrations.celery.app import Celery, shared_task
from rowcall.integrations.celery.beat import crontab, schedule
from rowcall.integrations.celery.canvas import Signature, chain, chord, group, maybe_signature, signature
from rowcall.integrations.celery.eager import EagerResult
from rowcall.integrations.celery.exceptions import (
    Ignore,
    MaxRetriesExceededError,
    Reject,
    SoftTimeLimitExceeded,
    TimeLimitExceeded,
)
from rowcall.integrations.celery.result import AsyncResult, GroupResult
from rowcall.integrations.celery.task import Task, get_task_logger

current_app = cast(Celery, current.Proxy(current.current_app))
current_task = cast(Task, current.Proxy(current.current_task))
subtask = signature

__all__ = [
    "AsyncResult",
    "Celery",
    "EagerResult",
    "GroupResult",
    "Ignore",
    "MaxRetriesExceededError",
    "NotRegistered",
    "OperationalError",
    "Reject",
    "Retry",
    "Signature",
    "SoftTimeLimitExceeded",
    "Task",
    "TaskRevokedError",
    "TimeLimitExceeded",
    "TimeoutError",
    "chain",
    "chord",
    "crontab",
    "current_app",
    "current_task",
    "get_task_logger",
    "group",
    "maybe_signature",
    "schedule",
    "shared_task",
    "signature",
    "states",
    "subtask",
]

_SIGNALS = "signals of Celery are not there: use @jobs.on, @task.on_failure and @jobs.lifespan"
_MISSING = {
    "Queue": "queues need no declaration: queue='mail' is enough",
    "Exchange": "there are no exchanges: use queues",
    "solar": "schedules by the sun are not there",
    "signals": _SIGNALS,
    **dict.fromkeys(
        (
            *(
                "after_setup_logger",
                "after_setup_task_logger",
                "beat_init",
                "before_task_publish",
                "after_task_publish",
            ),
            *("celeryd_after_setup", "celeryd_init", "setup_logging", "task_failure", "task_internal_error"),
            *("task_postrun", "task_prerun", "task_received", "task_rejected", "task_retry", "task_revoked"),
            *("task_success", "task_unknown", "worker_init", "worker_process_init", "worker_process_shutdown"),
            *("worker_ready", "worker_shutdown", "worker_shutting_down"),
        ),
        _SIGNALS,
    ),
}


def __getattr__(name: str) -> NoReturn:
    if name in _MISSING:
        raise ImportError(f"rowcall.compat.celery has no {name}: {_MISSING[name]}; see docs/from-celery.md")
    raise AttributeError(f"rowcall.compat.celery has no {name!r}; see docs/from-celery.md")
