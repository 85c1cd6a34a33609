"""`link_error`: what a call gets that follows a failure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowcall.app import Rowcall
from rowcall.domain.errors import JobFailed
from rowcall.domain.job import Job, Status
from rowcall.integrations.celery.eager import FailedCall, Request
from rowcall.integrations.celery.values import unpacked

_BECAUSE_OF_OTHERS = "BLOCKER:FAILED"


def failed_before(jobs: Rowcall, job: Job) -> FailedCall | None:
    """Return what failed before a job that waited for it; None if that has succeeded, or was cancelled.

    Of a chain it is the call that failed, and not those after it, which failed for that reason.
    """
    failed, blocker = None, _failed_blocker(jobs, job)
    while blocker is not None:
        failed = blocker
        blocker = _failed_blocker(jobs, blocker) if blocker.error_code == _BECAUSE_OF_OTHERS else None
    if failed is None:
        return None
    arguments: Any = unpacked(failed.payload)
    request = Request(
        id=str(failed.id),
        task=failed.type,
        args=arguments.get("args", ()),
        kwargs=arguments.get("kwargs", {}),
        retries=max(failed.attempt - 1, 0),
        called_directly=False,
    )
    attempts = jobs.attempts(failed)
    text = (attempts[-1].traceback if attempts else None) or ""
    return FailedCall(request, JobFailed(failed.id, failed.error_code or "", failed.error_detail), text)


def _failed_blocker(jobs: Rowcall, job: Job) -> Job | None:
    blockers = jobs.blockers(job)
    return next((jobs.get(one.id) for one in blockers if one.status == Status.FAILED), None)


def errback_arguments(
    function: Callable[..., object], failed: FailedCall | None, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[object, ...]:
    """Return the request, the error and the traceback; only the id for a function that takes one argument.

    `TypeError` if it takes neither. Without `failed`, this is only a check.
    """
    signature = inspect.signature(function)
    whole = failed or FailedCall(Request(), Exception(), "")
    try:
        signature.bind(*whole, *args, **kwargs)
    except TypeError:
        signature.bind(whole.request.id, *args, **kwargs)
        return (whole.request.id,)
    return tuple(whole)
