"""Events for all streams of one app: the database is read once, however many streams there are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from rowcall.domain.job import JobEvent
from rowcall.operations.events import PauseAfter, Stream, stream
from rowcall.overview.scrub import scrubbed
from rowcall.queue import Queue

Fits = Callable[[JobEvent], bool]

MOST_KEPT = 20_000
"""How many events are kept for streams that are slower than the others."""
MOST_AT_ONCE = 200
PAUSE_SECONDS = 0.05
"""Between two looks at the database, for each reading."""
LONGEST_REST_SECONDS = 1.0
"""After a look that took that long, or longer."""


class SharedEvents:
    """One reading for the streams of all jobs, and one for the streams of each job. It ends with the last of them."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._readings: dict[int | None, Reading] = {}

    @contextlib.asynccontextmanager
    async def reading(self, job_id: int | None) -> AsyncIterator[Reading]:
        """Yield the reading of one job, or of all jobs, once it is connected."""
        reading = self._readings.get(job_id)
        if reading is None or reading.is_over:
            reading = self._readings[job_id] = Reading(self._queue, job_id, self._pause_after)
        reading.streams += 1
        try:
            await asyncio.shield(reading.connected)
            yield reading
        finally:
            reading.streams -= 1
            if not reading.streams:
                if self._readings.get(job_id) is reading:
                    del self._readings[job_id]
                await reading.end()

    def _pause_after(self, look_seconds: float, has_more: bool) -> float:
        """Return how long to pause after a look: looks take at most half of the time, and the more readings there are,
        the less often each one looks.
        """
        pause = 0.0 if has_more else PAUSE_SECONDS * len(self._readings)
        return max(pause, min(look_seconds, LONGEST_REST_SECONDS))


class Reading:
    """The latest events, of one job or of all. Each stream has its own position among them."""

    def __init__(self, queue: Queue, job_id: int | None, pause_after: PauseAfter) -> None:
        self.streams = 0
        self.is_over = False
        self.connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connected.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._queue = queue
        self._kept: list[_Kept] = []
        self._dropped = 0
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self._source = stream(queue, None, None, job_id, None, pause_after)
        self._task = asyncio.create_task(self._run(self._source))

    @property
    def position(self) -> int:
        """The position behind all events."""
        return self._dropped + len(self._kept)

    def since(self, position: int, fits: Fits) -> tuple[str, int]:
        """Return the texts of some events behind a position, and the next position."""
        start = position - self._dropped
        if start < 0:
            why = f"the client was {-start + len(self._kept):,} events behind"
            return self._text(JobEvent(at=self._kept[-1].event.at, event="MISSED", detail=why)), self.position
        some = self._kept[start : start + MOST_AT_ONCE]
        texts = [one.text or self._kept_text(one) for one in some if fits(one.event)]
        if not some and self._error is not None:
            raise self._error
        return "".join(texts), position + len(some)

    async def wait(self, position: int, seconds: float) -> None:
        """Wait for events behind a position, or for the end, at most some seconds."""
        if position == self.position and not self.is_over:
            with contextlib.suppress(TimeoutError):
                await self._queue.clock.within(self._changed.wait(), seconds)
        else:
            await self._queue.clock.asleep(0)  # let others run

    async def end(self) -> None:
        self._source.stop()  # before Python 3.12, `asyncio.wait_for` can lose a cancellation
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self, source: Stream[JobEvent]) -> None:
        try:
            await self._queue.arun(source.connect())
            self.connected.set_result(None)
            while events := await self._queue.arun(source.take()):
                self._kept += map(_Kept, events)
                if len(self._kept) > MOST_KEPT:
                    self._dropped += len(self._kept) - MOST_KEPT
                    del self._kept[:-MOST_KEPT]
                self._wake()
        except Exception as error:
            if self.connected.done():
                self._error = error  # the streams raise it
            else:
                self.connected.set_exception(error)
        finally:
            self.is_over = True
            self._wake()
            await self._queue.arun(source.close())

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _kept_text(self, one: _Kept) -> str:
        one.text = self._text(one.event)
        return one.text

    def _text(self, event: JobEvent) -> str:
        return f"data: {scrubbed(self._queue.declared.failures, event).to_json()}\n\n"


class _Kept:
    """An event, and its text, which the first stream that sends it makes for all."""

    __slots__ = ("event", "text")

    def __init__(self, event: JobEvent) -> None:
        self.event = event
        self.text: str | None = None
