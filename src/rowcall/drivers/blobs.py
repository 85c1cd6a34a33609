"""Large payloads and results: written to a blob store before any row refers to them, and read back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from rowcall.domain.blobs import BlobStore, read, refer, reference_in, reference_of
from rowcall.domain.encryption import token_in, token_of
from rowcall.domain.errors import BlobUnreadable, CannotDecrypt, TooLarge, in_row
from rowcall.domain.job import Job
from rowcall.domain.payload import payload_from_row, value_from_row
from rowcall.drivers.cipher import Cipher

T = TypeVar("T")
Text = TypeVar("Text", str, str | None)

logger = logging.getLogger("rowcall")

MOST_BYTES_OF_A_CHARACTER = 4


class Blobs:
    """Every method may block, but for a text of at most `inline_length` characters, which stays in the row."""

    def __init__(self, store: BlobStore, threshold: int, limit: int, cipher: Cipher | None = None) -> None:
        self.store = store
        self._threshold = threshold
        self._limit = limit
        self.cipher = cipher
        # with a cipher, no text stays in the row as it is
        self.inline_length = inline_length(threshold, limit) if cipher is None else -1

    def stored(self, task: str, text: Text) -> Text:
        """Return what the row holds: the text, encrypted if there is a key, or a reference to it.

        `TooLarge` if it exceeds the limit.
        """
        if text is None or len(text) <= self.inline_length:
            return text
        data = text.encode()
        if len(data) > self._limit:
            problem = f"{len(data):,} bytes of JSON are more than payload_limit allows ({self._limit:,})"
            raise TooLarge(task, f"{problem}; store the data elsewhere and pass a reference")
        if self.cipher is not None:
            text = self.cipher.encrypted_json(text)
            data = text.encode()
        if len(data) <= self._threshold:
            return text
        reference = refer(data)
        self.store.put(reference.digest, data)
        return reference.text

    def all_stored(self, task: str, texts: Sequence[str]) -> list[str]:
        stored: list[str] = []
        for text in texts:
            with in_row(texts, len(stored)):
                stored.append(self.stored(task, text))
        return stored

    def any_large(self, texts: Sequence[str]) -> bool:
        return bool(texts) and max(map(len, texts)) > self.inline_length

    def fetched(self, text: str) -> str:
        """Return the text that a row holds or refers to. `BlobUnreadable` if it is gone; or `CannotDecrypt`."""
        return self.decrypted(self.fetched_raw(text))

    def fetched_raw(self, text: str) -> str:
        """Return the text that a row holds or refers to, as it is stored: perhaps encrypted."""
        reference = reference_of(text)
        return text if reference is None else read(self.store, reference)

    def decrypted(self, text: str) -> str:
        """Return the text, decrypted if it is encrypted. `CannotDecrypt` without the key."""
        token = token_of(text)
        if token is None:
            return text
        if self.cipher is None:
            name = token.split(":")[2]
            raise CannotDecrypt(name, f"this process has no key, and needs {name}; pass encrypt=…")
        return self.cipher.decrypt(token)

    def encrypted_text(self, text: Text) -> Text:
        """Return a text that is not JSON, encrypted if there is a key."""
        return text if self.cipher is None else self.cipher.encrypted_text(text)

    def outcome(self, text: str) -> str:
        """Return the payload of a follow-up, with what the arguments and the result in it refer to."""
        payload = payload_from_row(text)
        for value in payload.values():
            if isinstance(value, dict):
                for name in ("arguments", "result"):
                    if isinstance(part := value.get(name), dict):
                        value[name] = msgspec.json.decode(self.fetched(msgspec.json.encode(part).decode()))
                if self.cipher is not None:
                    value["error_detail"] = self.cipher.decrypted_text(value.get("error_detail"))
        return msgspec.json.encode(payload).decode()

    def value(self, text: str | None) -> object:
        """Return the value that a row holds or refers to."""
        return value_from_row(None if text is None else self.fetched(text))

    def shown(self, job: Job) -> Job:
        """Return the job with its payload and result. One that cannot be read is left as its reference."""
        payload, result = self.shown_value(job.id, job.payload), self.shown_value(job.id, job.result)
        if payload is not job.payload or result is not job.result:
            job = msgspec.structs.replace(job, payload=payload, result=result)
        return job if self.cipher is None else self.cipher.decrypted(job)

    def shown_value(self, job_id: int, value: T) -> T:
        reference = reference_in(value)
        if reference is None:
            return value
        try:
            found: T = msgspec.json.decode(self.decrypted(read(self.store, reference)))
        except (BlobUnreadable, CannotDecrypt) as error:
            logger.warning("job %d: %s", job_id, error)
            return value
        return found


def inline_length(threshold: int, limit: int) -> int:
    """Return how many characters stay in the row, however they are encoded."""
    return min(threshold, limit) // MOST_BYTES_OF_A_CHARACTER


def refers(job: Job) -> bool:
    """Return whether the payload or the result of the job is in a blob store, or encrypted."""
    return any(reference_in(value) is not None or token_in(value) is not None for value in (job.payload, job.result))
