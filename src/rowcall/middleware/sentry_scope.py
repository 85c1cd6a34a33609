"""Errors of handlers in Sentry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowcall.context import Context
from rowcall.declare.middleware import Middleware
from rowcall.domain.errors import Control
from rowcall.middleware.around import around
from rowcall.middleware.libraries import required


def sentry() -> Middleware:
    """Return a middleware that reports exceptions of handlers to Sentry, with the job they belong to.

        sentry_sdk.init(…)
        jobs.middleware(sentry())

    Each attempt has an isolation scope. `Retry`, `Snooze`, `Cancel` and `Fail` are not reported.
    """
    sentry_sdk = required("sentry_sdk", "sentry-sdk")

    @contextmanager
    def scoped(ctx: Context) -> Iterator[None]:
        with sentry_sdk.isolation_scope() as scope:
            fields = dict(ctx.log.extra or {})
            scope.set_transaction_name(str(fields["job_type"]), source="task")
            scope.set_tag("rowcall.task", fields["job_type"])
            scope.set_tag("rowcall.queue", fields["job_queue"])
            scope.set_context("rowcall", fields)
            try:
                yield
            except Control:
                raise
            except Exception as error:
                sentry_sdk.capture_exception(error)
                raise

    return around(scoped)
