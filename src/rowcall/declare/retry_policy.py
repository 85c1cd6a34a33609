"""The retry policy of an attempt: from the row, else from the task, else the default of its queue or of the app."""

from __future__ import annotations

from rowcall.context import logger
from rowcall.declare.declaration import Declaration
from rowcall.declare.failures import Failures
from rowcall.domain.backoff import DEFAULT_BACKOFF, RetryCallable, RetryPolicy, backoff_from_text
from rowcall.domain.defaults import TaskDefaults
from rowcall.domain.outcome import delay_of


def policy_of(
    task: Declaration | None, row: str | None, queue: str = "", defaults: TaskDefaults | None = None
) -> RetryPolicy:
    if row is not None:
        try:
            return backoff_from_text(row)
        except Exception as error:
            logger.warning("ignored the retry policy in a job's row: %s", error)
    declared = task.options.retry if task is not None else None
    chosen = declared or (defaults.of(queue).retry if defaults is not None else None) or DEFAULT_BACKOFF
    return guarded(chosen, task.failures if task is not None else Failures()) if callable(chosen) else chosen


def guarded(policy: RetryCallable, failures: Failures) -> RetryCallable:
    """Return a policy that uses the default where the user's callable fails, so that the worker survives."""

    def delay_seconds(attempt: int, error: BaseException) -> float | None:
        try:
            return delay_of(policy, attempt, error, chance=1.0)
        except Exception as broken:
            # not logger.exception: the handler's error is in its context, and must be scrubbed
            logger.error("a retry policy failed; used the default policy\n%s", failures.described(broken))
            return DEFAULT_BACKOFF.delay_seconds(attempt, chance=1.0)

    return delay_seconds
