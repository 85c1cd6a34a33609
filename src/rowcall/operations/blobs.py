"""Large payloads and results: put into their store before any row refers to them, read back, and removed at last."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rowcall.context import logger
from rowcall.domain.blobs import BlobStore, read, refer, reference_in, reference_of
from rowcall.domain.errors import BlobUnreadable, InvalidArguments, TooLarge
from rowcall.domain.job import Job
from rowcall.domain.payload import value_from_row
from rowcall.drivers.blob_folder import BlobFolder
from rowcall.operations.blob_table import BlobTable
from rowcall.store.blobs.queries import BLOB_PINS, JOBS_REFERRING, UNREFERRED_BLOBS
from rowcall.store.blobs.references import pinned, unpin
from rowcall.store.dialect import Dialect
from rowcall.store.statement import Plan

if TYPE_CHECKING:
    from rowcall.queue import Queue

T = TypeVar("T")
Text = TypeVar("Text", str, str | None)

GRACE_SECONDS = 86_400.0
LOOKED_AT_ONCE = 100
MOST_BYTES_OF_A_CHARACTER = 4


class Blobs:
    """`inline_length` is how many characters surely stay in the row, however they are encoded."""

    def __init__(self, core: Queue) -> None:
        config = core.config
        self._core = core
        self._threshold = config.blob_threshold
        self._limit = config.payload_limit
        self.inline_length = min(self._threshold, self._limit) // MOST_BYTES_OF_A_CHARACTER
        self._store: BlobStore = config.blobs if config.blobs is not None else _own_store(core)

    def stored(self, task: str, text: Text) -> Text:
        """What the row is to hold: the text, or a reference to where it was put. `TooLarge` above the limit."""
        if text is None or len(text) <= self.inline_length:
            return text
        data = text.encode()
        if len(data) > self._limit:
            problem = f"{len(data):,} bytes of JSON are more than payload_limit allows ({self._limit:,})"
            raise TooLarge(task, f"{problem}; keep the data elsewhere and pass where it is")
        if len(data) <= self._threshold:
            return text
        reference = refer(data)
        self._store.put(reference.digest, data)
        return reference.text

    async def astored(self, task: str, text: Text) -> Text:
        if text is None or len(text) <= self.inline_length:
            return text
        return await asyncio.get_running_loop().run_in_executor(None, self.stored, task, text)

    def any_large(self, texts: Sequence[str]) -> bool:
        return bool(texts) and max(map(len, texts)) > self.inline_length

    def all_stored(self, task: str, texts: Sequence[str]) -> list[str]:
        stored: list[str] = []
        try:
            stored.extend(self.stored(task, text) for text in texts)
        except TooLarge as error:
            raise InvalidArguments(task, f"row {len(stored)}: {error.problem}") from error
        return stored

    async def aall_stored(self, task: str, texts: Sequence[str]) -> list[str]:
        return await asyncio.get_running_loop().run_in_executor(None, self.all_stored, task, texts)

    def fetched(self, text: str) -> str:
        """What was stored; `BlobUnreadable` where it is not there any more."""
        reference = reference_of(text)
        return text if reference is None else read(self._store, reference)

    def value(self, text: str | None) -> object:
        """The value that a row holds, or refers to."""
        return value_from_row(None if text is None else self.fetched(text))

    def shown(self, job: Job) -> Job:
        """The job with its real payload and result. What cannot be read is left as the reference that it is."""
        payload, result = self._shown(job, job.payload), self._shown(job, job.result)
        if payload is job.payload and result is job.result:
            return job
        return msgspec.structs.replace(job, payload=payload, result=result)

    async def ashown(self, job: Job) -> Job:
        if reference_in(job.payload) is None and reference_in(job.result) is None:
            return job
        return await asyncio.get_running_loop().run_in_executor(None, self.shown, job)

    def _shown(self, job: Job, value: T) -> T:
        reference = reference_in(value)
        if reference is None:
            return value
        try:
            found: T = msgspec.json.decode(read(self._store, reference))
        except BlobUnreadable as error:
            logger.warning("job %d: %s", job.id, error)
            return value
        return found

    def collect(self, grace_seconds: float = GRACE_SECONDS, stopping: Callable[[], bool] = lambda: False) -> int:
        """Remove what no job refers to and nobody has put for that long; gives how many that were.

        It may be interrupted anywhere, and run beside others and beside those who put the same content again: what is
        put again is spared, as the store looks once more when it removes.
        """
        removed = 0
        for digests in _in_groups(self._store.digests(grace_seconds)):
            if stopping():
                break
            self._look_at_pins(digests)
            for digest in self._core.read(self._core.dialect.ask(UNREFERRED_BLOBS, digests)):
                self._store.delete(digest, grace_seconds)
                removed += 1
        return removed

    def _look_at_pins(self, digests: Sequence[str]) -> None:
        """Learn what became of calls that were cut off between their statements."""
        core = self._core
        for pin in core.read(core.dialect.ask(BLOB_PINS, digests)):
            job_ids = core.read(core.dialect.ask(JOBS_REFERRING, pin.reference))
            core.write(lambda pin=pin, job_ids=job_ids: unpin(core.dialect, pin, job_ids))  # type: ignore[misc]


def on_loan(dialect: Dialect, texts: Sequence[str | None], plan: Plan[T]) -> Plan[T]:
    """A plan for a connection of the caller's, which writes these payloads or results."""
    references = [reference for text in texts if (reference := reference_of(text)) is not None]
    return pinned(dialect, secrets.token_hex(8), references, plan) if references else plan


def collect_blobs(
    core: Queue, grace_seconds: float = GRACE_SECONDS, stopping: Callable[[], bool] = lambda: False
) -> int:
    """Remove the blobs that nothing refers to any more; asks between small groups whether to stop."""
    return core.blobs.collect(grace_seconds, stopping)


def _own_store(core: Queue) -> BlobStore:
    config, path = core.config, core.database.path
    if config.server is None:
        return BlobFolder(f"{path}-blobs", path, durable=not config.in_memory)
    return BlobTable(core)


def _in_groups(given: Iterable[str]) -> Iterator[list[str]]:
    digests = iter(given)
    while group := list(itertools.islice(digests, LOOKED_AT_ONCE)):
        yield group
