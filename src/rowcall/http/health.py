"""Whether the server is alive, whether the database answers, and metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rowcall.domain.errors import RowcallError
from rowcall.http.endpoint import READ_SECONDS
from rowcall.observe.meter import Latest
from rowcall.observe.metrics import exposition
from rowcall.operations.effects import reading_within
from rowcall.operations.stats import stats
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


def metrics(queue: Queue) -> Callable[[Request], Awaitable[Response]]:
    """Return the state of the queues for Prometheus. What workers have done is in the metrics of each worker."""
    counts = Latest(lambda: queue.run(reading_within(stats(queue, WINDOW_SECONDS), READ_SECONDS)), queue.clock)

    async def answer(request: Request) -> Response:
        return Response(await run_in_threadpool(exposition, counts), media_type=TEXT_FORMAT)

    return answer
