"""Exceptions that a task of Celery raises or catches."""

from __future__ import annotations


class MaxRetriesExceededError(Exception):
    """`self.retry()` was called in the last attempt."""


class Ignore(Exception):
    """End the job as cancelled; or with the state and value of `self.update_state`, if that was SUCCESS or FAILURE."""


class Reject(Exception):
    """Fail the job at once. With `requeue=True`, run it again soon: this attempt does not count."""

    def __init__(self, reason: object = None, requeue: bool = False) -> None:
        super().__init__(reason, requeue)
        self.reason = reason
        self.requeue = requeue


class SoftTimeLimitExceeded(Exception):
    """Never raised: `soft_time_limit` is refused. Tasks that catch it can still be imported."""


class TimeLimitExceeded(Exception):
    """Never raised: a job that runs past its `time_limit` fails with `TIMEOUT:HANDLER`."""


class ExceptionInfo(str):
    """The traceback of an exception as a text, for `on_failure` and the other hooks of a task."""

    exception: BaseException

    @property
    def traceback(self) -> str:
        return str(self)
