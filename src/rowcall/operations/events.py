"""What happens to jobs, as it happens: iterators over their events."""

from __future__ import annotations

import contextlib
import secrets
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import InvalidStateError
from typing import Generic, Self, TypeVar

from rowcall.base.text import did_you_mean
from rowcall.domain import checks
from rowcall.domain.errors import InvalidOption, MovedTo, StoreUnavailable
from rowcall.domain.job import Job, JobEvent
from rowcall.operations.arguments import checked_id
from rowcall.operations.both import HasQueue
from rowcall.operations.effects import Read, Sleep, Uninterrupted, Write
from rowcall.operations.results import (
    ANNOUNCE_AGAIN_SECONDS,
    CHECK_GROWTH,
    FIRST_CHECK_SECONDS,
    LAST_CHECK_SECONDS,
    Ticket,
    WaitFor,
    end_waiter,
)
from rowcall.queue import Operation, Queue
from rowcall.store.queries.results import ANY_JOB, REGISTER_WAITER, REMOVE_WAITER, RENEW_WAITER
from rowcall.store.results.readers import KINDS, EventFilter, JobReader, Reader, ReaderOf, missed
from rowcall.store.statement import Plan, Query

E = TypeVar("E")
T = TypeVar("T")

# several commits are read together
LEAST_PAUSE_SECONDS = 0.01

PauseAfter = Callable[[float, bool], float]
"""Returns how long to pause after a look that took the given seconds, and after which there is more to read or not."""


def _least_pause(look_seconds: float, has_more: bool) -> float:
    return LEAST_PAUSE_SECONDS


class Stream(Generic[E]):
    """Reads events for one consumer, when it asks for the next one: nothing is kept for a slow consumer but rows.

    A consumer that does not ask for a minute is forgotten; then, and wherever events may have been missed, it gets an
    event `"MISSED"`, and continues with what happens from then on.
    """

    def __init__(self, queue: Queue, reader: ReaderOf[E], pause_after: PauseAfter = _least_pause) -> None:
        self.queue = queue
        self._reader = reader
        self._pause_after = pause_after
        self._name = secrets.token_hex(8)
        self._events: deque[E] = deque()
        self._renewed_at: float | None = None
        self._looked_at = self._look_seconds = 0.0
        self._pause = FIRST_CHECK_SECONDS
        self._ticket: Ticket | None = None
        self._at_close = _Ending(self)
        self.is_connected = self.is_closed = self.is_over = self._is_lost = self._has_more = False

    def connect(self) -> Operation[None]:
        """Begin: what is committed from now on is seen."""
        if not self.is_connected and not self.is_closed:
            self.queue.backend.at_close.add(self._at_close)
            try:
                yield from self._start()
            except BaseException:
                self.stop()
                raise
            self.is_connected = True

    def next(self) -> Operation[E | None]:
        """Return the next event; None after `close`."""
        yield from self.connect()
        while not (self._events or self.is_closed or self.is_over):
            try:
                with end_waiter(self.queue).waiting(self._reader.waits_for, change=True) as self._ticket:
                    yield from self._look_or_wait(self._ticket)
            except MovedTo:
                self._is_lost = self._reader.waits_for == ANY_JOB  # it registers again where the queue is now
                raise
            except StoreUnavailable:  # it may be back soon; if rows were lost, the next look says so
                if not self.is_closed:
                    yield from Sleep(LAST_CHECK_SECONDS)
        if self._events and not self.is_closed:
            return self._events.popleft()
        self.stop()
        return None

    def take(self) -> Operation[list[E]]:
        """Return all events that were read, at least one; none after `close`."""
        first = yield from self.next()
        if first is None:
            return []
        some = [first, *self._events]
        self._events.clear()
        return some

    def close(self) -> Operation[None]:
        """End: a consumer that waits in another thread or task gets no more events."""
        was_registered, self._renewed_at = self._renewed_at is not None, None
        self.stop()
        if was_registered:
            with contextlib.suppress(StoreUnavailable):  # its row expires anyway
                yield from Write(self.queue.dialect.ask, REMOVE_WAITER, self._name, [ANY_JOB])

    def stop(self) -> None:
        """End the iteration, and stay registered: `close` follows."""
        self.is_closed = True
        self.queue.backend.at_close.discard(self._at_close)
        ticket = self._ticket
        if ticket is not None and not ticket.done():
            with contextlib.suppress(InvalidStateError):  # another thread may have resolved it just now
                ticket.set_result(None)

    def _look_or_wait(self, ticket: Ticket) -> Operation[None]:
        remaining = self._looked_at + self._pause_after(self._look_seconds, self._has_more) - self.queue.clock.timer()
        if remaining > 0:
            yield from Sleep(remaining)
            if self.is_closed:
                return
        # a consumer that stops waiting in the middle of a look finds its events at the next call
        yield from Uninterrupted(self._look())
        if self._events or self._has_more:
            self._pause = FIRST_CHECK_SECONDS
        elif not (self.is_closed or self.is_over):
            yield from WaitFor(ticket, self._pause)
            self._pause = min(self._pause * CHECK_GROWTH, LAST_CHECK_SECONDS)

    def _look(self) -> Operation[None]:
        timer = self.queue.clock.timer
        began = timer()
        yield from self._renew()
        if not self._is_lost:
            yield from Read(self._found(), snapshot=True)
        if self._is_lost:
            now_ms = yield from self._start()
            why = "the reader was too slow or could not reach the database, or the table of jobs was emptied"
            self._events.append(missed(now_ms, why))  # type: ignore[arg-type]  # only readers of events are lost
            self._is_lost = False
        self._looked_at = timer()
        self._look_seconds = self._looked_at - began

    def _found(self) -> Plan[None]:
        """Keep the events in the plan itself: if the end of the read fails, the reader is already behind them."""
        found = yield from self._reader.look(self.queue.dialect, self._name)
        self._events.extend(self.queue.backend.opened(found.events))
        self._has_more, self._is_lost, self.is_over = found.more, found.lost, found.gone

    def _start(self) -> Operation[int]:
        queue = self.queue
        if self._reader.waits_for == ANY_JOB:
            yield from self._register(REGISTER_WAITER)
        return (yield from Read(self._reader.start(queue.dialect, self._name), snapshot=True))

    def _renew(self) -> Operation[None]:
        """Renew the registration in time. If it had expired, changes were not recorded."""
        if self._renewed_at is None or self._is_lost:
            return
        if self.queue.clock.monotonic() - self._renewed_at > ANNOUNCE_AGAIN_SECONDS:
            self._is_lost = not (yield from self._register(RENEW_WAITER))

    def _register(self, query: Query[T]) -> Operation[list[T]]:
        """Register a reader of all jobs: changes are recorded only while there is one."""
        queue, now = self.queue, self.queue.clock.monotonic()
        rows = yield from Write(queue.dialect.ask, query, self._name, [ANY_JOB])
        self._renewed_at = now
        return rows


class _Ending:
    """Closes a stream together with its queue, and does not keep it alive."""

    def __init__(self, stream: Stream[E]) -> None:
        self._stream = weakref.ref(stream)

    def __call__(self) -> None:
        stream = self._stream()
        if stream is not None:
            stream.queue.run(stream.close())


class Events:
    """What happens to jobs: what `jobs.events()` returns. It is connected from the call on, and ends by `close()`."""

    def __init__(self, stream: Stream[JobEvent]) -> None:
        self._stream = stream
        stream.queue.call(stream.connect)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> JobEvent:
        event = self._stream.queue.call(self._stream.next)
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """End the iteration, also of another thread. Closing twice is safe."""
        self._stream.queue.run(self._stream.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        close_forgotten(getattr(self, "_stream", None))


class AsyncEvents:
    """What happens to jobs: what `jobs.aevents()` returns.

    It is connected at `async with`, or when the first event is asked for, and ends by `aclose()`.
    """

    def __init__(self, stream: Stream[JobEvent]) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JobEvent:
        event = await self._stream.queue.acall(self._stream.next)
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """End the iteration, also of another task. Closing twice is safe."""
        await self._stream.queue.arun(self._stream.close())

    async def __aenter__(self) -> Self:
        await self._stream.queue.acall(self._stream.connect)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        close_forgotten(getattr(self, "_stream", None))


def close_forgotten(stream: Stream[E] | None) -> None:
    """Close a stream that no one can read any more: its consumer left the loop by `break`."""
    if stream is not None and not stream.is_closed and not sys.is_finalizing():
        # in a thread: the interpreter may collect garbage anywhere, even in a thread that holds the write lock
        threading.Thread(target=stream.queue.run, args=[stream.close()], daemon=True).start()


# methods of `Rowcall`


def events(
    self: HasQueue,
    *,
    queue: str | None = None,
    task: str | None = None,
    id: Job | int | None = None,
    kind: str | Collection[str] | None = None,
) -> Events:
    """Return an iterator over what happens to jobs from now on, in this or any other process.

        with jobs.events(queue="mail", kind=["SUCCEEDED", "FAILED"]) as events:
            for event in events:
                print(event.at, event.event, event.job_id, event.detail)

    `kind` is one word of the timeline or several. Each event comes at most once. Where some were missed, there is
    an event `"MISSED"`, whatever the filter: after an outage, or if no event was asked for during a minute.
    """
    return Events(stream(self._queue, queue, task, id, kind))


def aevents(
    self: HasQueue,
    *,
    queue: str | None = None,
    task: str | None = None,
    id: Job | int | None = None,
    kind: str | Collection[str] | None = None,
) -> AsyncEvents:
    """`events`, for async code.

    async with jobs.aevents(task="send_email") as events:
        async for event in events:
            print(event.event, event.job_id)
    """
    return AsyncEvents(stream(self._queue, queue, task, id, kind))


def stream(
    queue: Queue,
    of_queue: str | None,
    task: str | None,
    job: Job | int | None,
    kind: str | Collection[str] | None,
    pause_after: PauseAfter = _least_pause,
) -> Stream[JobEvent]:
    """Return a stream that is not connected yet."""
    wanted = event_filter(of_queue, task, kind)
    return Stream(queue, Reader(wanted) if job is None else JobReader(checked_id(job), wanted), pause_after)


def event_filter(of_queue: str | None, task: str | None, kind: str | Collection[str] | None) -> EventFilter:
    """Return the filter, or raise `InvalidOption`."""
    return EventFilter(
        None if of_queue is None else checks.name("queue", of_queue),
        None if task is None else checks.name("task", task),
        None if kind is None else _kinds(kind),
    )


def _kinds(given: object) -> frozenset[str]:
    several = [given] if isinstance(given, str) or not isinstance(given, Collection) else list(given)
    for kind in several or [given]:
        if not isinstance(kind, str) or kind.upper() not in KINDS:
            hint = did_you_mean(str(kind).upper(), KINDS)
            raise InvalidOption("kind", f"must be one of {', '.join(KINDS)}, got {kind!r}{hint}")
    return frozenset(str(kind).upper() for kind in several)
