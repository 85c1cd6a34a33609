"""Keys for what jobs carry, and the form of encrypted texts in rows. The drivers encrypt and decrypt."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeVar, cast

from rowcall.domain.blobs import ENCRYPTED_KEY, REFUSED_KEY, reference_of
from rowcall.domain.errors import InvalidOption

V = TypeVar("V")

KEY_BYTES = 32

TOKEN_PREFIX = "encrypted:v1:"
_TOKEN = rf"{TOKEN_PREFIX}(?P<key>[0-9a-f]{{8}}):(?P<data>[A-Za-z0-9_-]+)"
TOKEN = re.compile(_TOKEN)
_OBJECT = re.compile(rf'\s*\{{\s*"{ENCRYPTED_KEY}"\s*:\s*"(?P<token>{_TOKEN})"\s*\}}\s*')


class Kind(StrEnum):
    """What an encrypted text is. It is decrypted only as that, and only for the task that it was encrypted for."""

    ARGUMENTS = "arguments"
    RESULT = "result"
    ERROR = "error"
    TRACEBACK = "traceback"
    PROGRESS = "progress"
    STEP = "step"
    """The result of a step, or the value of a signal, which becomes the result of the step that waits for it."""
    STEP_ERROR = "step error"
    STREAM = "stream"
    LOG = "log"


def bound_step(kind: str, name: str, task: str) -> tuple[str, Kind, Kind]:
    """Return the task and the kinds of the result and of the error of a step of a job of that task.

    A call has those of its child, whose end was copied.
    """
    return (name, Kind.RESULT, Kind.ERROR) if kind == "call" else (task, Kind.STEP, Kind.STEP_ERROR)


_PARTS = {"arguments": Kind.ARGUMENTS, "result": Kind.RESULT, "error_detail": Kind.ERROR}
_OF_OUTCOMES = {"id", "type", "queue", "event", "attempt", "max_attempts", "error_code", *_PARTS}
"""The fields of an outcome that can be encrypted, and all of its fields."""


class Encryption:
    """The keys of `Rowcall(encrypt=Encryption(keys=[…]))`. The first one encrypts, all of them decrypt.

    A key is 32 bytes, or these bytes in base64, such as `secrets.token_urlsafe(32)` returns. With `require=True`,
    arguments, results, steps and signals that are not encrypted are refused.

    >>> Encryption(keys=["k" * 43])
    Encryption(keys: 21362b6d)
    """

    def __init__(self, keys: Iterable[str | bytes], *, require: bool = False) -> None:
        if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
            raise InvalidOption("keys", "must be a list of keys")
        raw_keys = [_key_bytes(number, key) for number, key in enumerate(keys)]
        if not raw_keys:
            raise InvalidOption("keys", "must have at least one key")
        if len(set(raw_keys)) < len(raw_keys):
            raise InvalidOption("keys", "must differ, got one of them twice")
        self.by_id = {key_id(key): key for key in raw_keys}
        """The keys by the names that rows have of them, in order."""
        if not isinstance(require, bool):
            raise InvalidOption("require", f"must be true or false, got {require!r}")
        self.require = require

    def __repr__(self) -> str:
        return f"Encryption(keys: {', '.join(self.by_id)}{', require=True' if self.require else ''})"


def key_id(key: bytes) -> str:
    """Return what rows call a key: it does not reveal it."""
    return hashlib.sha256(b"rowcall key id" + key).hexdigest()[:8]


def _key_bytes(number: int, key: object) -> bytes:
    """Return the bytes of a key. Errors do not show it."""
    if isinstance(key, bytes) and len(key) == KEY_BYTES:
        return key
    try:
        text = key.decode() if isinstance(key, bytes) else key
        if isinstance(text, str):
            decoded = base64.b64decode(text.strip() + "=" * (-len(text.strip()) % 4), altchars=b"-_", validate=True)
            if len(decoded) == KEY_BYTES:
                return decoded
    except (ValueError, binascii.Error):
        pass
    advice = "make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
    raise InvalidOption(
        "keys", f"must have {KEY_BYTES} bytes each, as bytes or in base64; key {number} has not; {advice}"
    )


def object_of(token: str) -> str:
    """Return the JSON that a row has in place of an encrypted payload or result."""
    return f'{{"{ENCRYPTED_KEY}":"{token}"}}'


def token_of(text: str | None) -> str | None:
    """Return the encrypted text in the JSON of a payload or result, or None."""
    if text is None or ENCRYPTED_KEY not in text:
        return None
    found = _OBJECT.fullmatch(text)
    return None if found is None else found["token"]


def is_hidden(text: str) -> bool:
    """Return whether a row has something else in place of a payload or result: a reference, or an encrypted text."""
    return reference_of(text) is not None or token_of(text) is not None


def token_in(value: object) -> str | None:
    """Return the encrypted text in a decoded payload or result, or None."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    token = value.get(ENCRYPTED_KEY)
    return token if isinstance(token, str) and TOKEN.fullmatch(token) else None


def refused_in(value: object) -> bool:
    """Return whether a decoded payload or result replaces a plain one that was refused."""
    return isinstance(value, dict) and REFUSED_KEY in value


def outcome_in(value: object) -> dict[str, object] | None:
    """Return the outcome in the payload of a follow-up, as a database writes it, or None."""
    outcome = value.get("job") if isinstance(value, dict) and len(value) == 1 else None
    return outcome if isinstance(outcome, dict) and outcome.keys() == _OF_OUTCOMES else None


def with_parts(
    payload: dict[str, object], outcome: dict[str, object], change: Callable[[object, Kind], object]
) -> dict[str, object]:
    """Return the payload of a follow-up with what can be encrypted of the outcome in it changed."""
    parts = {name: change(outcome[name], kind) for name, kind in _PARTS.items()}
    return {"job": {**outcome, **parts}} if any(part is not outcome[name] for name, part in parts.items()) else payload


def _masked(found: re.Match[str]) -> str:
    return f"[encrypted with key {found['key']}]"


def masked(value: V) -> V:
    """Return a text, payload or result as a reader without the key sees it."""
    if isinstance(value, dict) and (outcome := outcome_in(value)) is not None:
        return cast("V", with_parts(value, outcome, _masked_part))
    return cast("V", _masked_part(value))


def _masked_part(value: object, kind: Kind | None = None) -> object:
    if isinstance(value, str):
        return TOKEN.sub(_masked, value) if TOKEN_PREFIX in value else value
    token = token_in(value)
    return value if token is None else {"encrypted": TOKEN.sub(_masked, token)}
