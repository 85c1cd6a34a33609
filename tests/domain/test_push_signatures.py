from __future__ import annotations

import pytest

from rowcall import InvalidOption, PushRefused
from rowcall.domain.push_signatures import attempt_of_token, callback_token, checked_secrets, sign, verify_message

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + "QUJD" * 10
BODY = b'{"test": 2432232314}'
AT = 1614265330


def test_the_example_of_the_specification() -> None:
    headers = sign([SECRET], "msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert verify_message([SECRET], headers, BODY, AT, 300) == "msg_p5jXN8AQM9LWM0D4loKWxJek"


def test_either_secret_verifies_during_a_rotation() -> None:
    headers = sign([SECRET, OTHER], "job-1-5", AT, BODY)
    for secrets in ([SECRET], [OTHER], [OTHER, SECRET]):
        assert verify_message(secrets, headers, BODY, AT, 300) == "job-1-5"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"webhook-id": "job-2-5"}, "none of the signatures"),
        ({"webhook-timestamp": str(AT + 1)}, "none of the signatures"),
        ({"webhook-signature": "v1,AAAA v1a,BBBB x"}, "none of the signatures"),
        ({"webhook-signature": "v1,ä"}, "none of the signatures"),
        ({"webhook-signature": ""}, "webhook-signature is missing"),
        ({"webhook-signature": "v1,A " * 2000}, "too long"),
        ({"webhook-timestamp": "yesterday"}, "not a number"),
        ({"webhook-timestamp": "²"}, "not a number"),
        ({"webhook-timestamp": "1" * 400}, "not a number"),
        ({"webhook-timestamp": "1" * 4096}, "not a number"),
        ({"webhook-id": "job.1"}, "not an id"),
        ({"webhook-id": "job 1"}, "not an id"),
        ({"webhook-id": "j" * 300}, "not an id"),
        ({"webhook-timestamp": str(AT - 301)}, "differs by more than 300 s"),
        ({"webhook-timestamp": str(AT + 301)}, "differs by more than 300 s"),
    ],
)
def test_what_is_refused(change: dict[str, str], problem: str) -> None:
    headers = {**sign([SECRET], "job-1-5", AT, BODY), **change}
    with pytest.raises(PushRefused, match=problem):
        verify_message([SECRET], headers, BODY, AT, 300)


def test_another_body_or_secret_is_refused_and_names_of_headers_have_any_case() -> None:
    headers = {name.title(): value for name, value in sign([SECRET], "job-1-5", AT, BODY).items()}
    assert verify_message([SECRET], headers, BODY, AT, 300)
    for secrets, body in (([SECRET], BODY + b" "), ([OTHER], BODY)):
        with pytest.raises(PushRefused):
            verify_message(secrets, headers, body, AT, 300)


def test_a_token_names_one_attempt() -> None:
    token = callback_token([SECRET, OTHER], 7, 3, 5)
    assert attempt_of_token([OTHER, SECRET], token) == (7, 3, 5)
    others = (token.replace("7.3", "7.4"), token.replace("7.", "8.", 1), token.replace("3.5.", "3.6."))
    for wrong in (*others, token[:-1], "", "7.3", "7.3.5", "7.3.5.ä", None, 7):
        with pytest.raises(PushRefused):
            attempt_of_token([SECRET], wrong)
    with pytest.raises(PushRefused):
        attempt_of_token([OTHER], token)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "at least one"),
        (None, "at least one"),
        (["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "must begin with 'whsec_'"),
        (["whsec_not base64"], "base64"),
        (["whsec_QUJD"], "24 to 64 bytes after 'whsec_', got 3"),
        ([SECRET, 7], "must begin with"),
    ],
)
def test_wrong_secrets_are_refused_and_not_shown(given: object, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem) as refused:
        checked_secrets(given)
    assert "QUJD" not in str(refused.value)
    assert "MfKQ" not in str(refused.value)


def test_one_secret_may_be_given_alone() -> None:
    assert checked_secrets(SECRET) == (SECRET,)
