"""The job in the log lines of structlog."""

from __future__ import annotations

from contextlib import AbstractContextManager

from rowcall.context import Context
from rowcall.declare.middleware import Middleware
from rowcall.middleware.around import around
from rowcall.middleware.libraries import required


def structlog_context() -> Middleware:
    """Return a middleware that binds `job_id`, `job_type` and the other fields of the job to structlog's context.

        jobs.middleware(structlog_context())

    `structlog.contextvars.merge_contextvars` must be among structlog's processors, as it is by default.
    """
    contextvars = required("structlog.contextvars", "structlog")

    def bound(ctx: Context) -> AbstractContextManager[object]:
        manager: AbstractContextManager[object] = contextvars.bound_contextvars(**(ctx.log.extra or {}))
        return manager

    return around(bound)
