"""Whether the server is alive, whether the database answers, and metrics for Prometheus."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rowcall.domain.errors import RowcallError
from rowcall.http.endpoint import Call
from rowcall.http.guard import ACCESS
from rowcall.http.shared_counts import SharedCounts
from rowcall.observe.meter import QueueFacts
from rowcall.observe.metrics import exposition
from rowcall.overview.attention.attention_list import counts_by_code
from rowcall.overview.liveness import time_now
from rowcall.queue import Queue

READY_SECONDS = 5.0
WINDOW_SECONDS = 60.0
TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"


async def healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def ready(queue: Queue) -> Callable[[Request], Awaitable[Response]]:
    async def readyz(request: Request) -> Response:
        try:
            await queue.clock.within(queue.arun(time_now(queue)), READY_SECONDS)
        except (RowcallError, TimeoutError):
            return PlainTextResponse("the database does not answer\n", 503)
        return PlainTextResponse("ready\n")

    return readyz


def metrics(queue: Queue, counts: SharedCounts) -> Callable[[Request], Awaitable[Response]]:
    """Return the state of the queues for Prometheus. What workers have done is in the metrics of each worker."""

    async def answer(request: Request) -> Response:
        facts: QueueFacts | None = None
        with contextlib.suppress(RowcallError, TimeoutError):
            call = Call(queue, request.scope[ACCESS], counts)
            facts = QueueFacts(await call.stats(WINDOW_SECONDS), counts_by_code(await call.attention()))
        return Response(exposition(facts), media_type=TEXT_FORMAT)

    return answer
