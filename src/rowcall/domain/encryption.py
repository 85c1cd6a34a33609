"""Keys for what jobs carry, and the form of encrypted texts in rows. The drivers encrypt and decrypt."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from rowcall.domain.blobs import ENCRYPTED_KEY, reference_of
from rowcall.domain.errors import InvalidOption

V = TypeVar("V")

KEY_BYTES = 32

TOKEN_PREFIX = "encrypted:v1:"
_TOKEN = rf"{TOKEN_PREFIX}(?P<key>[0-9a-f]{{8}}):(?P<data>[A-Za-z0-9_-]+)"
TOKEN = re.compile(_TOKEN)
"""An encrypted text, perhaps inside a longer one: a database adds to some errors."""
_OBJECT = re.compile(rf'\s*\{{\s*"{ENCRYPTED_KEY}"\s*:\s*"(?P<token>{_TOKEN})"\s*\}}\s*')


class Encryption:
    """The keys of `Rowcall(encrypt=Encryption(keys=[…]))`. The first one encrypts, all of them decrypt.

    A key is 32 bytes, or these bytes in base64, such as `secrets.token_urlsafe(32)` returns.

    >>> Encryption(keys=["k" * 43])
    Encryption(keys: 21362b6d)
    """

    def __init__(self, keys: Iterable[str | bytes]) -> None:
        if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
            raise InvalidOption("keys", "must be a list of keys")
        given = [_key_bytes(number, key) for number, key in enumerate(keys)]
        if not given:
            raise InvalidOption("keys", "must have at least one key")
        if len(set(given)) < len(given):
            raise InvalidOption("keys", "must differ, got one of them twice")
        self.by_id = {key_id(key): key for key in given}
        """The keys by the names that rows have of them, in order."""

    def __repr__(self) -> str:
        return f"Encryption(keys: {', '.join(self.by_id)})"


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


def each_encrypted(value: object, change: Callable[[object], object]) -> object:
    """Return a decoded payload with what is encrypted in it changed: all of it, or parts of the outcome of a job."""
    if token_in(value) is not None:
        return change(value)
    outcome = value.get("job") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(outcome, dict):
        return value
    parts = {name: change(outcome[name]) for name in ("arguments", "result", "error_detail") if name in outcome}
    return {"job": {**outcome, **parts}} if any(part is not outcome[name] for name, part in parts.items()) else value


def _masked(found: re.Match[str]) -> str:
    return f"[encrypted with key {found['key']}]"


def masked(value: V) -> V:
    """Return a text, payload or result as a reader without the key sees it."""
    return cast("V", each_encrypted(value, _masked_part) if isinstance(value, dict) else _masked_part(value))


def _masked_part(value: object) -> object:
    if isinstance(value, str):
        return TOKEN.sub(_masked, value) if TOKEN_PREFIX in value else value
    token = token_in(value)
    return value if token is None else {"encrypted": TOKEN.sub(_masked, token)}
