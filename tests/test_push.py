"""`rowcall.push.verify`, which any web framework can use."""

from __future__ import annotations

import pytest

import rowcall
from rowcall import InvalidOption, PushedJob, PushRefused, SystemClock
from rowcall.domain.push_signatures import sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = (
    b'{"id":1,"task":"send","arguments":{"to":"Ann"},"queue":"mail","attempt":1,"max_attempts":5,'
    b'"created_at":"2030-01-01T00:00:00Z","token":"1.1.x","new":"later versions may send more"}'
)


def signed(body: bytes, age: float = 0) -> dict[str, str]:
    return sign([SECRET], "job-1-5", int(SystemClock.wall() - age), body)


def test_a_signed_request_is_a_job() -> None:
    pushed = rowcall.push.verify(BODY, signed(BODY), SECRET)
    assert isinstance(pushed, PushedJob)
    assert (pushed.id, pushed.task, pushed.arguments, pushed.callback_url) == (1, "send", {"to": "Ann"}, None)


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"id": "x"}', b"[" * 100_000])
def test_a_body_that_is_not_a_job_is_refused(body: bytes) -> None:
    with pytest.raises(PushRefused, match="is not a job"):
        rowcall.push.verify(body, signed(body), [SECRET])


def test_an_old_request_is_refused() -> None:
    with pytest.raises(PushRefused):
        rowcall.push.verify(BODY, signed(BODY, age=20), SECRET, tolerance=10)
    assert rowcall.push.verify(BODY, signed(BODY, age=20), SECRET, tolerance=60).id == 1


def test_a_long_timestamp_is_refused() -> None:
    for timestamp in ("9" * 400, "9" * 4096):
        with pytest.raises(PushRefused, match="not a number of seconds"):
            rowcall.push.verify(BODY, {**signed(BODY), "webhook-timestamp": timestamp}, SECRET)


def test_wrong_options() -> None:
    with pytest.raises(InvalidOption, match="tolerance must be"):
        rowcall.push.verify(BODY, {}, SECRET, tolerance=0)
    with pytest.raises(InvalidOption, match="secrets must begin with"):
        rowcall.push.verify(BODY, {}, "secret")
