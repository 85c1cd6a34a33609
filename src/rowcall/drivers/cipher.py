"""Encrypts and decrypts with AES-GCM, by the library `cryptography`."""

from __future__ import annotations

import base64
import os
import re
from typing import TypeVar, cast

import msgspec

from rowcall.domain.encryption import TOKEN, TOKEN_PREFIX, Encryption, each_encrypted, object_of, token_in
from rowcall.domain.errors import CannotDecrypt, InvalidOption
from rowcall.domain.outcome import Transition
from rowcall.domain.value import Value

V = TypeVar("V")
Text = TypeVar("Text", str, str | None)

NONCE_BYTES = 12
CONTEXT = b"rowcall v1"
_TEXTS = {"error_detail", "traceback", "progress_message", "detail", "sample", "sentence"}
_VALUES = {"payload", "arguments", "result"}


class Cipher:
    """Its tokens are texts, so that they fit every column."""

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

    def encrypt(self, text: str) -> str:
        """Return the token of a text."""
        nonce = os.urandom(NONCE_BYTES)
        data = nonce + self._keys[self.first].encrypt(nonce, text.encode(), CONTEXT)
        return f"{TOKEN_PREFIX}{self.first}:{base64.urlsafe_b64encode(data).decode().rstrip('=')}"

    def decrypt(self, token: str) -> str:
        """Return the text of a token, or raise `CannotDecrypt`."""
        found = TOKEN.fullmatch(token)
        name = found["key"] if found is not None else ""
        key = self._keys.get(name)
        if found is None or key is None:
            raise CannotDecrypt(name, f"the key {name} is not among the keys of this process: {', '.join(self._keys)}")
        try:
            data = base64.urlsafe_b64decode(found["data"] + "=" * (-len(found["data"]) % 4))
            return key.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], CONTEXT).decode()
        except (self._invalid, ValueError):
            raise CannotDecrypt(name, f"the text was changed, or encrypted with another key than {name}") from None

    def encrypted_json(self, text: str) -> str:
        """Return what a row has in place of a payload or result."""
        return object_of(self.encrypt(text))

    def encrypted_text(self, text: Text) -> Text:
        return text if text is None else self.encrypt(text)

    def encrypted(self, transition: Transition) -> Transition:
        """Return a transition whose error is encrypted; its result already is."""
        if transition.error_detail is None and transition.traceback is None:
            return transition
        detail, traceback = self.encrypted_text(transition.error_detail), self.encrypted_text(transition.traceback)
        return msgspec.structs.replace(transition, error_detail=detail, traceback=traceback)

    # reading

    def decrypted(self, value: V) -> V:
        """Return what an operation returns, with its texts, arguments and results decrypted.

        What cannot be decrypted stays as it is: who looks at a job must see the rest of it.
        """
        return cast("V", self._decrypted(value))

    def _decrypted(self, value: object) -> object:
        if isinstance(value, Value):
            return self._decrypted_value(value)
        if isinstance(value, list):
            return [self._decrypted(part) for part in value]
        if isinstance(value, tuple) and type(value) is tuple:
            return tuple(self._decrypted(part) for part in value)
        if isinstance(value, dict):
            return {name: self._decrypted(part) for name, part in value.items()}
        return value

    def _decrypted_value(self, value: Value) -> Value:
        changes: dict[str, object] = {}
        for name in value.__struct_fields__:
            field = getattr(value, name)
            if field is None:
                continue
            if name in _TEXTS:
                new: object = self.decrypted_text(field)
            elif name in _VALUES:
                new = each_encrypted(field, self._decrypted_json)
            else:
                new = self._decrypted(field) if isinstance(field, Value | list | tuple) else field
            if new is not field:
                changes[name] = new
        return msgspec.structs.replace(value, **changes) if changes else value

    def decrypted_text(self, text: V) -> V:
        """Return a text with each token in it decrypted."""
        if not isinstance(text, str) or TOKEN_PREFIX not in text:
            return text
        return TOKEN.sub(self._decrypted_match, text)  # type: ignore[return-value]

    def _decrypted_match(self, found: re.Match[str]) -> str:
        try:
            return self.decrypt(found[0])
        except CannotDecrypt:
            return found[0]

    def _decrypted_json(self, value: object) -> object:
        if isinstance(value, str):
            return self.decrypted_text(value)
        token = token_in(value)
        if token is None:
            return value
        try:
            decrypted: object = msgspec.json.decode(self.decrypt(token))
        except CannotDecrypt:
            return value
        return decrypted
