"""Keys that are accepted and refused, and what is recognized as encrypted."""

from __future__ import annotations

import base64

import pytest

from rowcall import Encryption, InvalidOption, Rowcall
from rowcall.domain.encryption import masked, object_of, token_in, token_of

KEY = bytes(range(32))
TOKEN = "encrypted:v1:0123abcd:abc-_9"


@pytest.mark.parametrize(
    "key", [KEY, base64.urlsafe_b64encode(KEY), base64.urlsafe_b64encode(KEY).decode().rstrip("=")]
)
def test_a_key_is_32_bytes_or_these_in_base64(key: str | bytes) -> None:
    assert list(Encryption(keys=[key]).by_id.values()) == [KEY]


@pytest.mark.parametrize("key", ["short", "§" * 43, b"x" * 31, 7, None, ""])
def test_another_key_is_refused_and_not_shown(key: object) -> None:
    with pytest.raises(InvalidOption, match="must have 32 bytes each, as bytes or in base64; key 1 has not") as caught:
        Encryption(keys=[KEY, key])  # type: ignore[list-item]
    assert repr(key) not in str(caught.value) or not key


def test_a_text_no_key_and_one_key_twice_are_refused() -> None:
    with pytest.raises(InvalidOption, match="must be a list of keys"):
        Encryption(keys="k" * 43)
    with pytest.raises(InvalidOption, match="must have at least one key"):
        Encryption(keys=[])
    with pytest.raises(InvalidOption, match="must differ"):
        Encryption(keys=[KEY, base64.urlsafe_b64encode(KEY)])
    with pytest.raises(InvalidOption, match="encrypt must be an Encryption"):
        Rowcall("sqlite:///:memory:", encrypt=[KEY])  # type: ignore[arg-type]


def test_the_text_of_the_keys_names_them_only() -> None:
    shown = repr(Encryption(keys=[KEY]))
    assert shown.startswith("Encryption(keys: ")
    assert not any(part in shown for part in (repr(KEY), KEY.hex(), base64.b64encode(KEY).decode()[:8]))


def test_only_an_object_with_one_token_is_encrypted() -> None:
    assert token_of(object_of(TOKEN)) == token_of(f'{{"__rowcall_encrypted__": "{TOKEN}"}}') == TOKEN
    assert token_in({"__rowcall_encrypted__": TOKEN}) == TOKEN
    for value in (
        {"__rowcall_encrypted__": TOKEN, "more": 1},
        {"__rowcall_encrypted__": "encrypted:v2:x"},
        {"a": TOKEN},
        TOKEN,
    ):
        assert token_in(value) is None
    assert token_of(f'{{"__rowcall_encrypted__":"{TOKEN}","more":1}}') is token_of("{}") is token_of(None) is None


def test_what_a_reader_without_the_key_sees() -> None:
    assert masked(f"A:B {TOKEN}; late") == "A:B [encrypted with key 0123abcd]; late"
    assert masked({"__rowcall_encrypted__": TOKEN}) == {"encrypted": "[encrypted with key 0123abcd]"}
    known = {"id": 1, "type": "a", "queue": "b", "event": "failed", "attempt": 1, "max_attempts": 1, "error_code": "A"}
    outcome = {**known, "arguments": {"__rowcall_encrypted__": TOKEN}, "result": None, "error_detail": TOKEN}
    assert masked({"job": outcome}) == {
        "job": {
            **known,
            "arguments": {"encrypted": "[encrypted with key 0123abcd]"},
            "result": None,
            "error_detail": "[encrypted with key 0123abcd]",
        }
    }
    plain = {"job": {"id": 1, "arguments": {"a": 1}}}
    assert masked(plain) is plain
