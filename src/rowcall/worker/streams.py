"""Writes the values that handlers append to streams: those of all attempts of a worker share commits."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

from rowcall.domain.encryption import Kind
from rowcall.domain.errors import LeaseLost
from rowcall.domain.stream import MOST_STREAM_BYTES, MOST_VALUES, StreamRow, StreamStart, too_large
from rowcall.drivers.group_commit import is_about_all
from rowcall.operations.effects import Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.dialect import Dialect
from rowcall.store.queries.claims import Ready
from rowcall.store.statement import Plan
from rowcall.store.streams import values
from rowcall.worker.pace import FIRST_OUTAGE_SECONDS, STREAM_SECONDS
from rowcall.worker.service import Background


class Streaming(Protocol):
    """The attempt of a handler that appends values."""

    streamed: AttemptStream | None
    completed: bool

    @property
    def ready(self) -> Ready: ...
    @property
    def last_recorded(self) -> int | None: ...


class AttemptStream:
    """The values that one attempt has appended, and that are not known to be written.

    A value has its number before it is written, so to write it again changes nothing. Values that may repeat those of
    an earlier attempt get theirs once that is known.
    """

    def __init__(self, attempt: Streaming) -> None:
        self.ready = attempt.ready
        self.is_lost = False
        self._attempt = attempt
        self._lock = threading.Lock()
        self._unnumbered: list[tuple[str, str, int, int | None]] = []
        self._rows: list[StreamRow] = []
        self._values = self._bytes = 0
        self._start: StreamStart | None = None
        if self.ready.lease == 1:  # the first claim of a job
            self.number_from(StreamStart())

    def append(self, name: str, text: str, size: int, step: int | None) -> bool:
        """Return whether it is the only value that is to be written."""
        with self._lock:
            if self.is_lost:
                raise LeaseLost(self.ready.id)
            if self._values >= MOST_VALUES:
                raise too_large(self.ready.type, f"more than {MOST_VALUES:,} values of one job")
            if self._bytes + size > MOST_STREAM_BYTES:
                raise too_large(self.ready.type, f"more than {MOST_STREAM_BYTES:,} bytes of one job")
            was_empty = not (self._rows or self._unnumbered)
            if self._start is None:
                self._unnumbered.append((name, text, size, step))
            else:
                self._number(self._start, name, text, size, step)
            return was_empty

    def number_from(self, start: StreamStart) -> None:
        """Number the values that were appended, from where the job's streams end."""
        with self._lock:
            if self._start is not None:
                return
            # a step that this attempt has recorded does not count; and it reads the others before it records one
            recorded = self._attempt.last_recorded
            self._start = start = StreamStart(
                start.number, start.bytes, start.part, start.last_step if recorded is None else recorded
            )
            self._values, self._bytes = start.number, start.bytes
            unnumbered, self._unnumbered = self._unnumbered, []
            for value in unnumbered:
                self._number(start, *value)

    def _number(self, start: StreamStart, name: str, text: str, size: int, step: int | None) -> None:
        if step is not None and step < start.last_step:
            return
        self._values += 1
        self._bytes += size
        self._rows.append(StreamRow(self.ready.id, self._values, start.part, self._bytes, name, text))

    @property
    def is_completed(self) -> bool:
        """Whether the handler completes its job: then its transaction has the claim, and writes the values."""
        return self._attempt.completed

    @property
    def is_numbered(self) -> bool:
        return self._start is not None

    def unwritten(self, most: int | None = None) -> list[StreamRow]:
        with self._lock:
            return self._rows[:most]

    def note_written(self, rows: Sequence[StreamRow]) -> None:
        with self._lock:
            del self._rows[: len(rows)]

    def lose(self) -> None:
        """The attempt is no longer this worker's: nothing more is written about it."""
        with self._lock:
            self.is_lost = True
            self._rows, self._unnumbered = [], []


class StreamWriter:
    """Its thread starts with the first value."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._lock = threading.Lock()
        self._waiting: dict[AttemptStream, None] = {}
        self._appended = threading.Event()
        self.thread = Background("streams", self._run, queue.clock, wake=self._appended)

    def open(self, attempt: Streaming) -> AttemptStream:
        """Return the stream of an attempt; its handler may have several threads."""
        with self._lock:
            attempt.streamed = attempt.streamed or AttemptStream(attempt)
            return attempt.streamed

    def append(self, stream: AttemptStream, name: str, text: str, step: int | None) -> None:
        """Append a value, from any thread, without waiting."""
        size, blobs = len(text.encode()), self._queue.blobs
        if blobs.cipher is not None:
            text = blobs.cipher.encrypted_json(text, stream.ready.type, Kind.STREAM)
        if stream.append(name, text, size, step):
            self.note(stream)

    def note(self, stream: AttemptStream) -> None:
        """Let the thread write what the stream has."""
        with self._lock:
            self._waiting[stream] = None
            self.thread.start()
        self._appended.set()

    def _run(self, thread: Background) -> None:
        while not thread.stopping():
            self._appended.wait()
            self._appended.clear()
            thread.pause(STREAM_SECONDS if thread.attempt(self.write) else FIRST_OUTAGE_SECONDS)

    def write(self) -> None:
        """Write all values that were appended so far."""
        with self._lock:
            streams, self._waiting = self._waiting, {}
        try:
            for stream in streams:
                if not stream.is_numbered:
                    start = self._queue.run(
                        Read(values.start(self._queue.dialect, stream.ready.id, stream.ready.lease))
                    )
                    stream.number_from(start)
            while groups := {one: rows for one in streams if (rows := _next_rows(one))}:
                self._write(groups)
        except BaseException:
            with self._lock:
                self._waiting = streams | self._waiting
            self._appended.set()
            raise

    def _write(self, groups: dict[AttemptStream, list[StreamRow]]) -> None:
        rows = {stream.ready.fence: some for stream, some in groups.items()}
        try:
            live = self._queue.run(Write(values.append, self._queue.dialect, rows))
        except Exception as error:  # values that the database refuses must not hold up those of other jobs
            if len(groups) == 1 or is_about_all(error):
                raise
            self._write_each(groups)
            return
        for stream, some in groups.items():
            if stream.ready.fence in live:
                stream.note_written(some)
            else:
                stream.lose()

    def _write_each(self, groups: dict[AttemptStream, list[StreamRow]]) -> None:
        refused: Exception | None = None
        for stream, some in groups.items():
            try:
                self._write({stream: some})
            except Exception as error:
                refused = error
        if refused is not None:
            raise refused


def _next_rows(stream: AttemptStream) -> list[StreamRow]:
    return [] if stream.is_completed else stream.unwritten(values.ROWS_AT_ONCE)


def unwritten(queue: Queue, stream: AttemptStream) -> Operation[list[StreamRow]]:
    """Return the values that are not known to be written."""
    if not stream.is_numbered:
        stream.number_from((yield from Read(values.start(queue.dialect, stream.ready.id, stream.ready.lease))))
    return stream.unwritten()


def write_last(dialect: Dialect, streams: Iterable[AttemptStream]) -> Plan[None]:
    """Write what is left of attempts that this transaction has settled."""
    for stream in streams:
        if not stream.is_numbered:
            stream.number_from((yield from values.start(dialect, stream.ready.id, stream.ready.lease)))
        yield from values.write(dialect, stream.unwritten())
