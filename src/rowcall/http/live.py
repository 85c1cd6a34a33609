"""Server-sent events: what happens to jobs, and a hint for pages that something has changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Iterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from rowcall.base.clock import Clock
from rowcall.domain.errors import StoreUnavailable
from rowcall.http.endpoint import EndpointInput, converted
from rowcall.http.guard import problem_response
from rowcall.http.problems import Problem
from rowcall.http.shared_events import Fits, Reading, SharedEvents
from rowcall.operations.arguments import checked_id
from rowcall.operations.events import AsyncEvents, event_filter, stream
from rowcall.operations.streams import ShownValue, StreamSource
from rowcall.overview.scrub import scrubbed_value
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


class EventsQuery(EndpointInput, frozen=True, kw_only=True):
    """Which events are meant: of a queue, a task or a job, and of some kinds."""

    queue: str | None = None
    task: str | None = None
    id: int | None = None
    kind: list[str] | None = None


class ValuesQuery(EndpointInput, frozen=True, kw_only=True):
    """Behind which position to begin. A browser that connects again sends it as `Last-Event-ID`."""

    after: str | None = None


class EventStream(StreamingResponse):
    """A stream of texts. A client that does not read for some seconds is cut off."""

    def __init__(self, texts: AsyncGenerator[str, None], clock: Clock, held: contextlib.AsyncExitStack) -> None:
        super().__init__(texts, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._texts = texts
        self._clock = clock
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held, contextlib.aclosing(self._texts):  # also if the client left before the first text
            if scope["method"] == "HEAD":  # the client has the whole answer: it cannot see that a stream continues
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send({"type": "http.response.body"})
                return
            # without the version of ASGI: from 2.4 on, only the next text would notice that the client has left
            await super().__call__({**scope, "asgi": {}}, receive, send)

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            await self._clock.within(_awaited(send(message)), SEND_SECONDS)

        with contextlib.suppress(OSError):  # the client has left, or does not read: a TimeoutError
            await super().stream_response(send_in_time)


async def _awaited(sending: Awaitable[None]) -> None:
    await sending


def _too_many() -> Response:
    response = problem_response(Problem(503, "Too many streams", f"at most {MOST_STREAMS} at a time"))
    response.headers["retry-after"] = "30"
    return response


class Live:
    """All streams of one app: a bounded number."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._open = 0
        self._shared = SharedEvents(queue)
        self._pages: set[asyncio.Event] = set()
        self._watching: asyncio.Task[None] | None = None

    async def events(self, request: Request) -> Response:
        """Answer with the events of jobs, each as JSON."""
        query = converted(request.query_params.multi_items(), EventsQuery)
        fits = event_filter(query.queue, query.task, query.kind).fits
        job_id = None if query.id is None else checked_id(query.id)
        if self._open >= MOST_STREAMS:
            return _too_many()
        async with contextlib.AsyncExitStack() as held:
            held.enter_context(self._counted())
            reading = await held.enter_async_context(self._shared.reading(job_id))
            return EventStream(self._events(reading, reading.position, fits), self._queue.clock, held.pop_all())

    async def pages(self, request: Request) -> Response:
        """Answer with a hint, at most one a second, whenever something has happened."""
        if self._open >= MOST_STREAMS:
            return _too_many()
        held = contextlib.AsyncExitStack()
        held.enter_context(self._counted())
        return EventStream(self._hints(), self._queue.clock, held)

    async def values(self, request: Request) -> Response:
        """Answer with the values of a stream of one job, until it has ended."""
        query = converted(request.query_params.multi_items(), ValuesQuery)
        after = request.headers.get("last-event-id", query.after)
        source = StreamSource(self._queue, request.path_params["id"], request.path_params["name"], after)
        if self._open >= MOST_STREAMS:
            return _too_many()
        async with contextlib.AsyncExitStack() as held:
            held.enter_context(self._counted())
            await self._queue.arun(source.stream.connect())
            return EventStream(self._values(source), self._queue.clock, held.pop_all())

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def _events(self, reading: Reading, position: int, fits: Fits) -> AsyncGenerator[str, None]:
        timer = self._queue.clock.timer
        ends_at, quiet_at = timer() + LONGEST_SECONDS, timer() + QUIET_SECONDS
        text = "retry: 2000\n\n"
        while text or not reading.is_over or position < reading.position:
            if not text and timer() >= quiet_at:
                text = _KEEP_ALIVE
            if text:
                yield text
                quiet_at = timer() + QUIET_SECONDS
            if timer() >= ends_at:
                return
            await reading.wait(position, quiet_at - timer())
            text, position = reading.since(position, fits)

    async def _values(self, source: StreamSource) -> AsyncGenerator[str, None]:
        queue, until = self._queue, self._queue.clock.timer() + LONGEST_SECONDS
        taking: asyncio.Task[list[ShownValue]] | None = None
        part = source.at.part
        try:
            yield "retry: 2000\n\n"
            while queue.clock.timer() < until:
                taking = taking or asyncio.ensure_future(queue.arun(source.take()))
                try:  # shielded: values that come at the last moment are there at the next turn
                    values = await queue.clock.within(asyncio.shield(taking), QUIET_SECONDS)
                except TimeoutError:
                    yield _KEEP_ALIVE
                    continue
                taking = None
                if not values:
                    if source.stream.is_over:
                        yield "event: end\ndata:\n\n"
                    return
                for value in values:
                    if value.part != part:
                        part = value.part
                        yield f"event: part\ndata: {part}\n\n"
                    yield self._value_text(value)
        finally:
            source.stream.stop()
            if taking is not None:
                taking.cancel()
                await asyncio.wait([taking])

    def _value_text(self, shown: ShownValue) -> str:
        value = scrubbed_value(self._queue.declared.failures, shown.value)
        return f"id: {shown.position}\ndata: {msgspec.json.encode(value).decode()}\n\n"

    async def _hints(self) -> AsyncGenerator[str, None]:
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
        while self._watching is asyncio.current_task():  # a cancellation can get lost, see `Reading.end`
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
