"""Texts that are encrypted, decrypted, and refused."""

from __future__ import annotations

import sys

import msgspec
import pytest

from rowcall import CannotDecrypt, Encryption, InvalidOption
from rowcall.domain.encryption import Kind
from rowcall.domain.job import Attempt, Event, JobEvent
from rowcall.drivers.cipher import Cipher
from rowcall.testing import FakeClock

OLD, NEW = b"o" * 32, b"n" * 32
PLACE = "charge", Kind.ERROR


def cipher_of(*keys: bytes, queue_id: str = "q1") -> Cipher:
    cipher = Cipher(Encryption(keys=keys))
    cipher.queue_id = queue_id
    return cipher


def test_a_text_is_different_each_time_and_read_with_any_key_of_the_list() -> None:
    old, both = cipher_of(OLD), cipher_of(NEW, OLD)
    tokens = {old.encrypt("sécret", *PLACE) for _ in range(3)}
    assert len(tokens) == 3
    assert {both.decrypt(token, *PLACE) for token in tokens} == {"sécret"}
    with pytest.raises(CannotDecrypt, match=f"the key {both.first} is not among the keys of this process") as caught:
        old.decrypt(both.encrypt("x", *PLACE), *PLACE)
    assert (caught.value.key_id, caught.value.error_code) == (both.first, "INVALID_INPUT:CANNOT_DECRYPT")


def test_a_changed_text_is_refused() -> None:
    cipher = cipher_of(NEW)
    token = cipher.encrypt("text", *PLACE)
    body = token.rindex(":") + 1  # not its last letter: some bits of it are not used
    for damaged in (
        token[:-2],
        token[:body] + ("A" if token[body] != "A" else "B") + token[body + 1 :],
        token[:body] + "A",
    ):
        with pytest.raises(CannotDecrypt):
            cipher.decrypt(damaged, *PLACE)


def test_a_text_is_bound_to_its_queue_its_task_and_its_kind() -> None:
    token = cipher_of(NEW).encrypt("text", *PLACE)
    assert cipher_of(NEW).decrypt(token, *PLACE) == "text"
    for task, kind, queue_id in (
        ("refund", Kind.ERROR, "q1"),
        ("charge", Kind.TRACEBACK, "q1"),
        ("charge", Kind.ERROR, "q2"),
    ):
        with pytest.raises(CannotDecrypt, match="for another queue, task or kind of value"):
            cipher_of(NEW, queue_id=queue_id).decrypt(token, task, kind)


def test_only_the_columns_that_hold_encrypted_texts_are_decrypted() -> None:
    cipher, now = cipher_of(NEW), FakeClock().now()
    token, foreign = cipher.encrypt("no card", *PLACE), cipher_of(OLD).encrypt("x", *PLACE)
    failed = Attempt(job_id=1, attempt=1, status="failed", claimed_at=now, type="charge")
    attempt = msgspec.structs.replace(failed, error_detail=f"{token}; late")
    assert [one.error_detail for one in cipher.opened([attempt])] == ["no card; late"]
    line = Event(at=now, event="FAILED", detail=f"{foreign}: {token}", type="charge", secret=token, secret_kind="error")
    (opened, _) = cipher.opened((line, 3))
    assert opened.detail == f"{foreign}: no card"
    for plain in (
        Event(at=now, event="CANCELLED", detail=token, type="charge"),
        msgspec.structs.replace(failed, worker=token, error_detail=f"x {token}"),
        JobEvent(at=now, event="CANCELLED", detail=f"{token}", type="charge"),
    ):
        assert cipher.opened(plain) is plain


def test_without_the_library_the_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(InvalidOption, match=r"encrypt needs cryptography: pip install 'rowcall\[encrypt\]'"):
        Cipher(Encryption(keys=[NEW]))
