"""What Celery apps import, on top of Rowcall. See docs/from-celery.md."""

from rowcall.integrations.celery.app import Celery, shared_task
from rowcall.integrations.celery.beat import crontab
from rowcall.integrations.celery.canvas import Signature, chain, chord, group, signature
from rowcall.integrations.celery.result import AsyncResult, GroupResult
from rowcall.integrations.celery.task import MaxRetriesExceededError, Task, get_task_logger

__all__ = [
    "AsyncResult",
    "Celery",
    "GroupResult",
    "MaxRetriesExceededError",
    "Signature",
    "Task",
    "chain",
    "chord",
    "crontab",
    "get_task_logger",
    "group",
    "shared_task",
    "signature",
]
