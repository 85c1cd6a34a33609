"""Texts that are encrypted, decrypted, and refused."""

from __future__ import annotations

import sys

import pytest

from rowcall import CannotDecrypt, Encryption, InvalidOption
from rowcall.domain.job import Attempt, Event
from rowcall.drivers.cipher import Cipher
from rowcall.testing import FakeClock

OLD, NEW = b"o" * 32, b"n" * 32


def test_a_text_is_different_each_time_and_read_with_any_key_of_the_list() -> None:
    old, both = Cipher(Encryption(keys=[OLD])), Cipher(Encryption(keys=[NEW, OLD]))
    tokens = {old.encrypt("sécret") for _ in range(3)}
    assert len(tokens) == 3
    assert {both.decrypt(token) for token in tokens} == {"sécret"}
    with pytest.raises(CannotDecrypt, match=f"the key {both.first} is not among the keys of this process") as caught:
        old.decrypt(both.encrypt("x"))
    assert (caught.value.key_id, caught.value.error_code) == (both.first, "INVALID_INPUT:CANNOT_DECRYPT")


def test_a_changed_text_is_refused() -> None:
    cipher = Cipher(Encryption(keys=[NEW]))
    token = cipher.encrypt("text")
    body = token.rindex(":") + 1  # not its last letter: some bits of it are not used
    for damaged in (
        token[:-2],
        token[:body] + ("A" if token[body] != "A" else "B") + token[body + 1 :],
        token[:body] + "A",
    ):
        with pytest.raises(CannotDecrypt):
            cipher.decrypt(damaged)


def test_the_texts_of_values_are_decrypted_wherever_they_are() -> None:
    cipher, now = Cipher(Encryption(keys=[NEW])), FakeClock().now()
    token, foreign = cipher.encrypt("no card"), Cipher(Encryption(keys=[OLD])).encrypt("x")
    attempt = Attempt(job_id=1, attempt=1, status="failed", claimed_at=now, error_detail=token)
    event = Event(at=now, event="FAILED", detail=f"A:B: {token}; {foreign}")
    assert [one.error_detail for one in cipher.decrypted([attempt])] == ["no card"]
    for value in (cipher.decrypted((event, 3)), cipher.decrypted({"one": event})):
        assert f"A:B: no card; {foreign}" in str(value)
    plain = Event(at=now, event="STARTED", detail="attempt 1")
    assert cipher.decrypted(plain) is plain


def test_without_the_library_the_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(InvalidOption, match=r"encrypt needs cryptography: pip install 'rowcall\[encrypt\]'"):
        Cipher(Encryption(keys=[NEW]))
