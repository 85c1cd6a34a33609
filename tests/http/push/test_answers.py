from __future__ import annotations

import pytest

from rowcall import PushFailed
from rowcall.http.push.answers import AnswerHead

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


def answer(status: int, **headers: str) -> AnswerHead:
    return AnswerHead(status, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tue, 14 Nov 2023 22:14:20", 60.0),
        ("Tue, 14 Nov 2023 21:00:00 GMT", 0.0),
        ("9" * 400, 999_999_999_999.0),
        ("-5", None),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date(given: str, seconds: float | None) -> None:
    assert answer(503, retry_after=given).failure(b"", NOW).retry_after == seconds


def test_only_a_json_body_is_a_result() -> None:
    for media_type in ("application/json", "application/JSON; charset=utf-8", "application/vnd.app+json"):
        assert answer(200, content_type=media_type).has_result
    for media_type in ("text/plain", "", "application/json-seq", "text/html; application/json"):
        assert not answer(200, content_type=media_type).has_result
    assert not answer(500, content_type="application/json").has_result
    assert answer(200).result(b'{"a": 1}', 100) == {"a": 1}
    assert answer(200).result(b" ", 100) is None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b" " * 100_001, "PUSH:ANSWER_TOO_LARGE"),
        (b"{", "PUSH:ANSWER_NOT_JSON"),
        (b"[" * 100_000, "PUSH:ANSWER_NOT_JSON"),
    ],
)
def test_a_wrong_result_fails_for_good(body: bytes, code: str) -> None:
    with pytest.raises(PushFailed) as failed:
        answer(200).result(body, 100_000)
    assert (failed.value.code, failed.value.final) == (code, True)


def test_the_target_may_say_which_error_it_was() -> None:
    assert answer(422, rowcall_error_code="PAYMENT:DECLINED").failure(b"no", NOW).code == "PAYMENT:DECLINED"
    assert answer(422, rowcall_error_code="not a code!").failure(b"no", NOW).code == "PUSH:HTTP_422"


def test_of_a_long_error_the_first_4_kib_are_kept_without_half_a_character() -> None:
    detail = answer(422).failure(b"no " + "é".encode() * 2047, NOW).detail
    assert detail == "the target answered with 422: no " + "é" * 2046 + "…"
    assert answer(422).failure(b"no \xc3", NOW).detail == "the target answered with 422: no \ufffd"


def test_a_redirect_says_where_it_leads() -> None:
    failure = answer(302, location="http://10.0.0.1/").failure(b"<html>", NOW)
    assert "redirects are not followed; it leads to http://10.0.0.1/" in failure.detail
    assert not failure.final
