"""Large payloads and results: written to a blob store before any row refers to them, and read back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from rowcall.domain.blobs import BlobStore, read, refer, reference_in, reference_of
from rowcall.domain.encryption import Kind, is_hidden, outcome_in, token_of, with_parts
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
        self.requires = cipher is not None and cipher.requires
        """Whether values that are not encrypted are refused."""

    def stored(self, task: str, text: Text, kind: Kind, bound_to: str | None = None) -> Text:
        """Return what the row holds: the text, encrypted if there is a key, or a reference to it.

        It is bound to the task, or to another one if `task` is only what errors say. `TooLarge` if it exceeds the
        limit.
        """
        if text is None or len(text) <= self.inline_length:
            return text
        data = text.encode()
        if len(data) > self._limit:
            problem = f"{len(data):,} bytes of JSON are more than payload_limit allows ({self._limit:,})"
            raise TooLarge(task, f"{problem}; store the data elsewhere and pass a reference")
        if self.cipher is not None:
            text = self.cipher.encrypted_json(text, task if bound_to is None else bound_to, kind)
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
                stored.append(self.stored(task, text, Kind.ARGUMENTS))
        return stored

    def fetched(self, text: str, task: str, kind: Kind) -> str:
        """Return the text that a row holds or refers to. `BlobUnreadable` if it is gone; or `CannotDecrypt`."""
        return self.decrypted(self.fetched_raw(text), task, kind)

    def fetched_raw(self, text: str) -> str:
        """Return the text that a row holds or refers to, as it is stored: perhaps encrypted."""
        reference = reference_of(text)
        return text if reference is None else read(self.store, reference)

    def decrypted(self, text: str, task: str, kind: Kind) -> str:
        """Return the text, decrypted if it is encrypted. `CannotDecrypt` without the key, or if plain is refused."""
        if self.cipher is not None:
            return self.cipher.decrypted_json(text, task, kind)
        token = token_of(text)
        if token is None:
            return text
        name = token.split(":")[2]
        raise CannotDecrypt(name, f"this process has no key, and needs {name}; pass encrypt=…")

    def encrypted_text(self, text: Text, task: str, kind: Kind) -> Text:
        """Return a text that is not JSON, encrypted if there is a key."""
        return text if self.cipher is None else self.cipher.encrypted_text(text, task, kind)

    def encrypted_json(self, text: str | None, task: str, kind: Kind) -> str | None:
        """Return a short JSON text that is never in a blob store, encrypted if there is a key."""
        return text if self.cipher is None or text is None else self.cipher.encrypted_json(text, task, kind)

    def opened_text(self, text: Text, task: str, kind: Kind) -> Text:
        """Return the text of a column, decrypted if there is its key."""
        return text if self.cipher is None else self.cipher.opened_text(text, task, kind)

    def payload(self, text: str, task: str, *, takes_outcome: bool = False) -> str:
        """Return the payload that a row holds or refers to; of a follow-up, also what the outcome in it refers to."""
        was_hidden = is_hidden(text)
        whole = text if takes_outcome and not was_hidden else self.fetched(text, task, Kind.ARGUMENTS)
        outcome = outcome_in(payload_from_row(whole)) if takes_outcome else None
        if outcome is None:
            return self.fetched(text, task, Kind.ARGUMENTS) if whole is text else whole
        followed = str(outcome["type"])

        def fetch_part(part: object, kind: Kind) -> object:
            if part is None or (was_hidden and reference_in(part) is None):  # it was encrypted with the whole
                return part
            if kind is Kind.ERROR:
                return self.opened_text(str(part), followed, kind)
            return msgspec.json.decode(self.fetched(msgspec.json.encode(part).decode(), followed, kind))

        return msgspec.json.encode(with_parts({"job": outcome}, outcome, fetch_part)).decode()

    def check(self, text: str | None) -> None:
        """Raise `CannotDecrypt` if a row holds a plain value, and those are refused."""
        if self.requires and text is not None and not is_hidden(text):
            self.decrypted(text, "", Kind.STEP)

    def value(self, text: str | None, task: str, kind: Kind) -> object:
        """Return the value that a row holds or refers to."""
        return value_from_row(None if text is None else self.fetched(text, task, kind))

    def shown(self, job: Job) -> Job:
        """Return the job with its payload and result. One that cannot be read is left as its reference."""
        payload = self.shown_value(job.id, job.payload, job.type, Kind.ARGUMENTS)
        result = self.shown_value(job.id, job.result, job.type, Kind.RESULT)
        if payload is job.payload and result is job.result:
            return job
        return msgspec.structs.replace(job, payload=payload, result=result)

    def shown_value(self, job_id: int, value: T, task: str, kind: Kind) -> T:
        reference = reference_in(value)
        if reference is None:
            return value
        try:
            decoded: T = msgspec.json.decode(self.decrypted(read(self.store, reference), task, kind))
        except (BlobUnreadable, CannotDecrypt) as error:
            logger.warning("job %d: %s", job_id, error)
            return value
        return decoded


def inline_length(threshold: int, limit: int) -> int:
    """Return how many characters stay in the row, however they are encoded."""
    return min(threshold, limit) // MOST_BYTES_OF_A_CHARACTER


def refers(job: Job) -> bool:
    """Return whether the payload or the result of the job is in a blob store."""
    return any(reference_in(value) is not None for value in (job.payload, job.result))
