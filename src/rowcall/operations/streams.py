"""The streams of jobs: iterators over the values that their handlers append."""

from __future__ import annotations

from typing import NamedTuple, Self

import msgspec

from rowcall.domain import checks
from rowcall.domain.encryption import Kind, masked
from rowcall.domain.job import Job
from rowcall.domain.stream import Position, checked_position
from rowcall.operations.arguments import checked_id
from rowcall.operations.both import HasQueue
from rowcall.operations.effects import Read
from rowcall.operations.events import Stream, close_forgotten
from rowcall.queue import Operation, Queue
from rowcall.store.queries.streams import LAST_VALUES, StoredValue
from rowcall.store.streams.values import ValueReader


class ShownValue(NamedTuple):
    """A value as it may be shown: with a note in place of one that cannot be decrypted."""

    position: str
    part: int
    value: object


class StreamSource:
    """Follows one stream of a job, and knows where it is."""

    def __init__(self, queue: Queue, job: Job | int, name: str, after: str | None) -> None:
        self.at = checked_position(checked_id(job), after)
        self._reader = ValueReader(self.at, checks.name("name", name))
        self.stream: Stream[StoredValue] = Stream(queue, self._reader)

    def value_of(self, stored: StoredValue) -> object:
        """Return the value, and move behind it. `CannotDecrypt` without its key."""
        text = self.stream.queue.blobs.decrypted(str(stored.value), self._reader.task, Kind.STREAM)
        self.at = Position(self.at.job_id, stored.part, stored.number)
        value: object = msgspec.json.decode(text)
        return value

    def take(self) -> Operation[list[ShownValue]]:
        """Return all values that were read, at least one; none after the end."""
        return [self._shown(stored) for stored in (yield from self.stream.take())]

    def _shown(self, stored: StoredValue) -> ShownValue:
        self.at = Position(self.at.job_id, stored.part, stored.number)
        value, cipher = msgspec.json.decode(str(stored.value)), self.stream.queue.backend.cipher
        opened = value if cipher is None else cipher.opened_json(value, self._reader.task, Kind.STREAM)
        return ShownValue(str(self.at), stored.part, masked(opened))


class StreamEnd(NamedTuple):
    """The last values of a stream, as they may be shown: of its last part alone."""

    name: str
    part: int
    position: str
    values: list[object]


def last_values(queue: Queue, job: Job, most: int, most_bytes: int) -> Operation[list[StreamEnd]]:
    """Return the end of each stream of a job, by their names: at most `most` values of all of them together."""
    rows = yield from Read(queue.dialect.ask(LAST_VALUES, job.id, most, most_bytes))
    cipher, ends = queue.backend.cipher, dict[str, StreamEnd]()
    for row in rows:
        value = msgspec.json.decode(row.value)
        opened = value if cipher is None else cipher.opened_json(value, job.type, Kind.STREAM)
        end = ends.get(row.name)
        earlier = [] if end is None or end.part != row.part else end.values
        position = str(Position(job.id, row.part, row.number))
        ends[row.name] = StreamEnd(row.name, row.part, position, [*earlier, masked(opened)])
    return [ends[name] for name in sorted(ends)]


class StreamReader:
    """The values of a stream: what `jobs.stream()` returns. It ends when the job has ended, or by `close()`."""

    def __init__(self, source: StreamSource) -> None:
        self._source = source
        source.stream.queue.call(source.stream.connect)

    @property
    def position(self) -> str:
        """The position behind the last value: another reader continues there with `after=`."""
        return str(self._source.at)

    @property
    def part(self) -> int:
        """The part of the last value. A higher one begins after an attempt that failed or was lost."""
        return self._source.at.part

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> object:
        stored = self._source.stream.queue.call(self._source.stream.next)
        if stored is None:
            raise StopIteration
        return self._source.value_of(stored)

    def close(self) -> None:
        """End the iteration, also of another thread. Closing twice is safe."""
        self._source.stream.queue.run(self._source.stream.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if (source := getattr(self, "_source", None)) is not None:
            close_forgotten(source.stream)


class AsyncStreamReader:
    """The values of a stream: what `jobs.astream()` returns. It ends when the job has ended, or by `aclose()`."""

    def __init__(self, source: StreamSource) -> None:
        self._source = source

    @property
    def position(self) -> str:
        """The position behind the last value: another reader continues there with `after=`."""
        return str(self._source.at)

    @property
    def part(self) -> int:
        """The part of the last value. A higher one begins after an attempt that failed or was lost."""
        return self._source.at.part

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        stored = await self._source.stream.queue.acall(self._source.stream.next)
        if stored is None:
            raise StopAsyncIteration
        return self._source.value_of(stored)

    async def aclose(self) -> None:
        """End the iteration, also of another task. Closing twice is safe."""
        await self._source.stream.queue.arun(self._source.stream.close())

    async def __aenter__(self) -> Self:
        await self._source.stream.queue.acall(self._source.stream.connect)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if (source := getattr(self, "_source", None)) is not None:
            close_forgotten(source.stream)


# methods of `Rowcall`


def stream(self: HasQueue, job: Job | int, name: str = "out", *, after: str | None = None) -> StreamReader:
    """Return an iterator over the values that the handler of a job appends with `ctx.stream`, until the job has ended.

        for token in jobs.stream(job):
            print(token, end="", flush=True)

    It begins with the first value, or behind `after`, the `position` of another reader of this job. It works in any
    process, however many readers there are. `JobNotFound` if the job does not exist.
    """
    return StreamReader(StreamSource(self._queue, job, name, after))


def astream(self: HasQueue, job: Job | int, name: str = "out", *, after: str | None = None) -> AsyncStreamReader:
    """`stream`, for async code.

    async for token in jobs.astream(job):
        print(token, end="", flush=True)
    """
    return AsyncStreamReader(StreamSource(self._queue, job, name, after))
