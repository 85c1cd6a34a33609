"""Middleware that is ready to use, and what helps to write your own: `jobs.middleware(sentry())`."""

from rowcall.declare.enqueue_call import EnqueueCall, EnqueueMiddleware
from rowcall.declare.middleware import AnyMiddleware, AsyncCallNext, CallNext, Middleware, MiddlewareFunction
from rowcall.middleware.around import around
from rowcall.middleware.django_connections import close_django_connections
from rowcall.middleware.sentry_scope import sentry
from rowcall.middleware.structlog_fields import structlog_context
from rowcall.middleware.timeouts import soft_timeout

__all__ = [
    "AnyMiddleware",
    "AsyncCallNext",
    "CallNext",
    "EnqueueCall",
    "EnqueueMiddleware",
    "Middleware",
    "MiddlewareFunction",
    "around",
    "close_django_connections",
    "sentry",
    "soft_timeout",
    "structlog_context",
]
