"""Django's database connections in handlers."""

from __future__ import annotations

from rowcall.context import Context
from rowcall.declare.middleware import AsyncCallNext, CallNext, Middleware
from rowcall.middleware.libraries import required


def close_django_connections() -> Middleware:
    """Return a middleware that closes unusable and outdated Django connections, before and after each attempt.

        jobs.middleware(close_django_connections())

    Django does this for each request (`CONN_MAX_AGE`). Without it, a handler in a thread may meet a connection that
    the server has closed long ago. A kept connection is also checked when a handler first uses it, as with
    `CONN_HEALTH_CHECKS`.
    """
    connections = required("django.db", "django").connections

    def close() -> None:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:  # a test's transaction, in which it runs jobs
                connection.close_if_unusable_or_obsolete()
                connection.health_check_enabled = True  # jobs are far apart: the server may have restarted

    def sync(ctx: Context, call_next: CallNext) -> object:
        close()
        try:
            return call_next()
        finally:
            close()

    async def asynchronous(ctx: Context, call_next: AsyncCallNext) -> object:
        aclose = required("asgiref.sync", "asgiref").sync_to_async(close)
        await aclose()  # in the thread that async code uses for Django's database calls
        try:
            return await call_next()
        finally:
            await aclose()

    return Middleware(sync, asynchronous)
