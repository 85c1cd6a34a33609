"""Encrypts and decrypts with AES-GCM, by the library `cryptography`."""

from __future__ import annotations

import base64
import os
from typing import TypeVar, cast

import msgspec

from rowcall.domain.blobs import REFUSED_KEY, reference_in
from rowcall.domain.encryption import (
    TOKEN,
    TOKEN_PREFIX,
    Encryption,
    Kind,
    bound_step,
    object_of,
    outcome_in,
    token_in,
    token_of,
    with_parts,
)
from rowcall.domain.errors import CannotDecrypt, InvalidOption
from rowcall.domain.job import Attempt, Chain, ErrorGroup, Event, Failing, Job
from rowcall.domain.outcome import Transition
from rowcall.domain.step import OpenWait, RecordedStep
from rowcall.domain.value import Value

V = TypeVar("V")
Text = TypeVar("Text", str, str | None)

NONCE_BYTES = 12
FORMAT = "rowcall v1"
_PLAIN = "the value is not encrypted, and Encryption(require=True) refuses it"


class Cipher:
    """Its tokens are texts, so that they fit every column. Each is bound to a queue, a task and a kind of value."""

    def __init__(self, encryption: Encryption) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ModuleNotFoundError:
            raise InvalidOption("encrypt", "needs cryptography: pip install 'rowcall[encrypt]'") from None
        self._invalid = InvalidTag
        self._keys = {name: AESGCM(key) for name, key in encryption.by_id.items()}
        self.first = next(iter(self._keys))
        """The name of the key that encrypts."""
        self.requires = encryption.require
        """Whether plain values are refused."""
        self.queue_id: str | None = None
        """The id of the queue, once its tables were read."""

    def encrypt(self, text: str, task: str, kind: Kind) -> str:
        """Return the token of a text."""
        nonce = os.urandom(NONCE_BYTES)
        data = nonce + self._keys[self.first].encrypt(nonce, text.encode(), self._bound_to(task, kind))
        return f"{TOKEN_PREFIX}{self.first}:{base64.urlsafe_b64encode(data).decode().rstrip('=')}"

    def decrypt(self, token: str, task: str, kind: Kind) -> str:
        """Return the text of a token, or raise `CannotDecrypt`."""
        match = TOKEN.fullmatch(token)
        name = match["key"] if match is not None else ""
        key = self._keys.get(name)
        if match is None or key is None:
            raise CannotDecrypt(name, f"the key {name} is not among the keys of this process: {', '.join(self._keys)}")
        try:
            data = base64.urlsafe_b64decode(match["data"] + "=" * (-len(match["data"]) % 4))
            return key.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._bound_to(task, kind)).decode()
        except (self._invalid, ValueError):
            where = f"for another queue, task or kind of value than {kind} of {task!r}"
            problem = f"the text was changed, or encrypted {where}, or with another key than {name}"
            raise CannotDecrypt(name, problem) from None

    def _bound_to(self, task: str, kind: Kind) -> bytes:
        assert self.queue_id is not None, "the tables must be checked before anything is encrypted"
        return msgspec.json.encode([FORMAT, self.queue_id, task, kind])

    def encrypted_json(self, text: str, task: str, kind: Kind) -> str:
        """Return what a row has in place of a payload or result."""
        return object_of(self.encrypt(text, task, kind))

    def encrypted_text(self, text: Text, task: str, kind: Kind) -> Text:
        return text if text is None else self.encrypt(text, task, kind)

    def encrypted(self, transition: Transition, task: str) -> Transition:
        """Return a transition whose error is encrypted; its result already is."""
        if transition.error_detail is None and transition.traceback is None:
            return transition
        detail = self.encrypted_text(transition.error_detail, task, Kind.ERROR)
        traceback = self.encrypted_text(transition.traceback, task, Kind.TRACEBACK)
        note = transition.note and transition.note.without_text()
        return msgspec.structs.replace(transition, error_detail=detail, traceback=traceback, note=note)

    def decrypted_json(self, text: str, task: str, kind: Kind) -> str:
        """Return the JSON of what a row has in place of it. `CannotDecrypt` without the key, or if plain is refused."""
        token = token_of(text)
        if token is not None:
            return self.decrypt(token, task, kind)
        if self.requires:
            raise CannotDecrypt("", _PLAIN)
        return text

    # reading

    def opened(self, value: V) -> V:
        """Return what a plan has read, with what is encrypted in it decrypted: values of classes with such columns.

        What cannot be decrypted stays as it is: who looks at a job must see the rest of it. A plain value that is
        refused is replaced by a note.
        """
        return cast("V", self._opened(value))

    def _opened(self, value: object) -> object:
        if isinstance(value, Value):
            changes = {name: new for name, new in self._columns(value).items() if new is not getattr(value, name)}
            return msgspec.structs.replace(value, **changes) if changes else value
        if isinstance(value, list):
            return [self._opened(part) for part in value]
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self._opened(part) for part in value)
        return value

    def _columns(self, value: Value) -> dict[str, object]:
        """Return the columns of a value that can be encrypted, decrypted."""
        match value:
            case Job():
                return {
                    "payload": self.opened_payload(value.payload, value.type),
                    "result": self.opened_json(value.result, value.type, Kind.RESULT),
                    "error_detail": self.opened_text(value.error_detail, value.type, Kind.ERROR),
                    "progress_message": self.opened_text(value.progress_message, value.type, Kind.PROGRESS),
                }
            case Attempt():
                return {
                    "error_detail": self.opened_text(value.error_detail, value.type, Kind.ERROR),
                    "traceback": self.opened_text(value.traceback, value.type, Kind.TRACEBACK),
                }
            case Event(secret=str() as secret, detail=str() as detail, type=str() as task):
                shown = self.opened_text(secret, task, Kind(value.secret_kind))
                return {"detail": detail.removesuffix(secret) + shown, "secret": None}
            case RecordedStep():
                task, result, error = bound_step(value.kind, value.name, value.type)
                return {
                    "result": self.opened_json(value.result, task, result),
                    "question": self.opened_json(value.question, value.type, Kind.STEP),
                    "error_detail": self.opened_text(value.error_detail, task, error),
                }
            case OpenWait():
                return {"question": self.opened_json(value.question, value.type, Kind.STEP)}
            case Chain():
                return {
                    "result": self.opened_json(value.result, value.last_type, Kind.RESULT),
                    "error_detail": self.opened_text(value.error_detail, value.last_type, Kind.ERROR),
                    "steps": self._opened(value.steps),
                }
            case ErrorGroup() | Failing():
                return {"sample": self.opened_text(value.sample, value.sample_type, Kind.ERROR)}
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: self._opened(field) for name, field in fields.items() if isinstance(field, Value | list | tuple)}

    def opened_text(self, text: Text, task: str, kind: Kind) -> Text:
        """Return the text of a column, decrypted. A database adds to some errors: what follows a token is plain."""
        match = None if text is None else TOKEN.match(text)
        if text is None or match is None:
            return text
        try:
            return self.decrypt(match[0], task, kind) + text[match.end() :]
        except CannotDecrypt:
            return text

    def opened_json(self, value: object, task: str, kind: Kind) -> object:
        """Return the decoded value of a column, decrypted."""
        token = token_in(value)
        if token is None:
            is_plain = value is not None and reference_in(value) is None
            return {REFUSED_KEY: "not encrypted"} if self.requires and is_plain else value
        try:
            decrypted: object = msgspec.json.decode(self.decrypt(token, task, kind))
        except CannotDecrypt:
            return value
        return decrypted

    def opened_payload(self, payload: dict[str, object], task: str) -> dict[str, object]:
        """Return arguments, decrypted. The outcome in a follow-up has parts of the job that it follows."""
        outcome = outcome_in(payload)
        if outcome is None:
            return cast("dict[str, object]", self.opened_json(payload, task, Kind.ARGUMENTS))
        followed = str(outcome["type"])

        def open_part(part: object, kind: Kind) -> object:
            if kind is Kind.ERROR:
                return self.opened_text(part, followed, kind) if isinstance(part, str) else part
            return self.opened_json(part, followed, kind)

        return with_parts(payload, outcome, open_part)
