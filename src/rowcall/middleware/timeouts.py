"""A warning about handlers that take long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rowcall.context import Context
from rowcall.declare.middleware import Middleware
from rowcall.domain.errors import seconds_of
from rowcall.middleware.around import around


def soft_timeout(after: float | timedelta) -> Middleware:
    """Return a middleware that logs a warning when a handler is still running after that many seconds.

        @jobs.task(timeout=300, middleware=[soft_timeout(60)])
        def report(month: str) -> None: ...

    The handler continues. The warning comes from a thread, so a handler that blocks the event loop is noticed, too.
    Each attempt starts a thread that waits: use it for tasks that are long, not for thousands of short jobs a second.
    """
    seconds = seconds_of("after", after, 0.001)

    @contextmanager
    def watched(ctx: Context) -> Iterator[None]:
        log = ctx.log
        timer = threading.Timer(seconds, log.warning, ("handler still runs after %g s", seconds))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    return around(watched)
