"""Large payloads and results: written to a blob store before any row refers to them, and read back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from rowcall.domain.blobs import BlobStore, read, refer, reference_in, reference_of
from rowcall.domain.errors import BlobUnreadable, InvalidArguments, TooLarge
from rowcall.domain.job import Job
from rowcall.domain.payload import payload_from_row, value_from_row

T = TypeVar("T")
Text = TypeVar("Text", str, str | None)

logger = logging.getLogger("rowcall")

MOST_BYTES_OF_A_CHARACTER = 4


class Blobs:
    """Every method may block, but for a text of at most `inline_length` characters, which stays in the row."""

    def __init__(self, store: BlobStore, threshold: int, limit: int) -> None:
        self.store = store
        self._threshold = threshold
        self._limit = limit
        self.inline_length = inline_length(threshold, limit)

    def stored(self, task: str, text: Text) -> Text:
        """Return what the row holds: the text, or a reference to it. `TooLarge` if it exceeds the limit."""
        if text is None or len(text) <= self.inline_length:
            return text
        data = text.encode()
        if len(data) > self._limit:
            problem = f"{len(data):,} bytes of JSON are more than payload_limit allows ({self._limit:,})"
            raise TooLarge(task, f"{problem}; store the data elsewhere and pass a reference")
        if len(data) <= self._threshold:
            return text
        reference = refer(data)
        self.store.put(reference.digest, data)
        return reference.text

    def all_stored(self, task: str, texts: Sequence[str]) -> list[str]:
        stored: list[str] = []
        try:
            stored.extend(self.stored(task, text) for text in texts)
        except TooLarge as error:
            raise InvalidArguments(task, f"row {len(stored)}: {error.problem}") from error
        return stored

    def any_large(self, texts: Sequence[str]) -> bool:
        return bool(texts) and max(map(len, texts)) > self.inline_length

    def fetched(self, text: str) -> str:
        """Return the text that a row holds or refers to. `BlobUnreadable` if it is gone."""
        reference = reference_of(text)
        return text if reference is None else read(self.store, reference)

    def outcome(self, text: str) -> str:
        """Return the payload of a handler of ends, with what the arguments and the result in it refer to."""
        payload = payload_from_row(text)
        for value in payload.values():
            if isinstance(value, dict):
                for name in ("arguments", "result"):
                    if (reference := reference_in(value.get(name))) is not None:
                        value[name] = msgspec.json.decode(read(self.store, reference))
        return msgspec.json.encode(payload).decode()

    def value(self, text: str | None) -> object:
        """Return the value that a row holds or refers to."""
        return value_from_row(None if text is None else self.fetched(text))

    def shown(self, job: Job) -> Job:
        """Return the job with its payload and result. One that cannot be read is left as its reference."""
        payload, result = self.shown_value(job.id, job.payload), self.shown_value(job.id, job.result)
        if payload is job.payload and result is job.result:
            return job
        return msgspec.structs.replace(job, payload=payload, result=result)

    def shown_value(self, job_id: int, value: T) -> T:
        reference = reference_in(value)
        if reference is None:
            return value
        try:
            found: T = msgspec.json.decode(read(self.store, reference))
        except BlobUnreadable as error:
            logger.warning("job %d: %s", job_id, error)
            return value
        return found


def inline_length(threshold: int, limit: int) -> int:
    """Return how many characters stay in the row, however they are encoded."""
    return min(threshold, limit) // MOST_BYTES_OF_A_CHARACTER


def refers(job: Job) -> bool:
    """Return whether the payload or the result of the job is in a blob store."""
    return reference_in(job.payload) is not None or reference_in(job.result) is not None
