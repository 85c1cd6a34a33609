"""Server-sent events: what happens to jobs, and a hint for pages that something has changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from rowcall.base.clock import Clock
from rowcall.domain.errors import StoreUnavailable
from rowcall.domain.job import JobEvent
from rowcall.http.endpoint import Request as Given
from rowcall.http.endpoint import converted
from rowcall.http.guard import problem_response
from rowcall.http.problems import Problem
from rowcall.operations.events import AsyncEvents, stream
from rowcall.overview.scrub import scrubbed
from rowcall.queue import Queue

MOST_STREAMS = 64
LONGEST_SECONDS = 600.0
"""Then the client connects again: a token that was taken away ends all streams by then."""
QUIET_SECONDS = 15.0
SEND_SECONDS = 20.0
PAUSE_SECONDS = 1.0
OUTAGE_SECONDS = 5.0
_SHOWN = (
    *("ENQUEUED", "BLOCKED", "UNBLOCKED", "STARTED", "PROGRESS", "SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"),
    *("RETRY_SCHEDULED", "SNOOZED", "RELEASED", "RECOVERED", "MANUAL_RETRY", "COMPLETED", "RESCHEDULED", "EDITED"),
    *("CANCEL_REQUESTED", "PRIORITY_CHANGED", "REPLACED"),
)
"""The kinds of events that change pages: not heartbeats, which come all the time."""
_KEEP_ALIVE = ": still here\n\n"


class EventsQuery(Given, frozen=True, kw_only=True):
    """Which events are meant: of a queue, a task or a job, and of some kinds."""

    queue: str | None = None
    task: str | None = None
    id: int | None = None
    kind: list[str] | None = None


class EventStream(StreamingResponse):
    """A stream of texts. A client that does not read for some seconds is cut off."""

    def __init__(self, texts: AsyncIterator[str], clock: Clock, done: Callable[[], None]) -> None:
        super().__init__(texts, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._texts = texts
        self._clock = clock
        self._done = done

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            await self._clock.within(_awaited(send(message)), SEND_SECONDS)

        try:
            with contextlib.suppress(TimeoutError):
                await super().stream_response(send_in_time)
        finally:
            self._done()


async def _awaited(sending: Awaitable[None]) -> None:
    await sending


class Live:
    """All streams of one app: a bounded number."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._open = 0
        self._pages: set[asyncio.Event] = set()
        self._watching: asyncio.Task[None] | None = None

    async def events(self, request: Request) -> Response:
        """Answer with the events of jobs, each as JSON."""
        query = converted(request.query_params.multi_items(), EventsQuery)
        found = AsyncEvents(stream(self._queue, query.queue, query.task, query.id, query.kind))
        return self._stream(self._events(found))

    async def pages(self, request: Request) -> Response:
        """Answer with a hint, at most one a second, whenever something has happened."""
        return self._stream(self._hints())

    def _stream(self, texts: AsyncIterator[str]) -> Response:
        if self._open >= MOST_STREAMS:
            response = problem_response(Problem(503, "Too many streams", f"at most {MOST_STREAMS} at a time"))
            response.headers["retry-after"] = "30"
            return response
        self._open += 1
        return EventStream(texts, self._queue.clock, self._close)

    def _close(self) -> None:
        self._open -= 1

    async def _events(self, events: AsyncEvents) -> AsyncIterator[str]:
        clock = self._queue.clock
        until = clock.timer() + LONGEST_SECONDS
        async with events:
            yield "retry: 2000\n\n"
            while clock.timer() < until:
                try:
                    event = await clock.within(anext(events), QUIET_SECONDS)
                except TimeoutError:
                    yield _KEEP_ALIVE
                except StopAsyncIteration:
                    return
                else:
                    yield self._text(event)

    def _text(self, event: JobEvent) -> str:
        return f"data: {scrubbed(self._queue.failures, event).to_json()}\n\n"

    async def _hints(self) -> AsyncIterator[str]:
        clock, changed = self._queue.clock, asyncio.Event()
        until = clock.timer() + LONGEST_SECONDS
        self._pages.add(changed)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield "retry: 2000\n\n"
            while clock.timer() < until:
                try:
                    await clock.within(changed.wait(), QUIET_SECONDS)
                except TimeoutError:
                    yield _KEEP_ALIVE
                else:
                    changed.clear()
                    yield "data: changed\n\n"
        finally:
            self._pages.discard(changed)
            if not self._pages and self._watching is not None:
                self._watching.cancel()
                self._watching = None

    async def _watch(self) -> None:
        """Read one event, for all pages together, then pause: a busy queue must not make a dashboard busy."""
        while True:
            try:
                async with AsyncEvents(stream(self._queue, None, None, None, _SHOWN)) as events:
                    self._hint()  # something may have happened before it was connected
                    await anext(events, None)
            except StoreUnavailable:
                await self._queue.clock.asleep(OUTAGE_SECONDS)
            self._hint()
            await self._queue.clock.asleep(PAUSE_SECONDS)

    def _hint(self) -> None:
        for changed in self._pages:
            changed.set()
