from __future__ import annotations

import ipaddress

import pytest

from rowcall import InvalidOption, Limit, PushOptions
from rowcall.domain.limits import key_of
from rowcall.domain.push import PushTarget, checked_target

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def options(**more: object) -> PushOptions:
    return PushOptions(secrets=[SECRET], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"timeout": 0}, "timeout must be a duration from 0.01 s"),
        ({"timeout": "soon"}, "timeout must be seconds"),
        ({"open_for": 0}, "open_for must be a duration from 1 s"),
        ({"tolerance": -1}, "tolerance must be"),
        ({"limit": 3}, "limit must be a Limit"),
        ({"limit": Limit("push", concurrency=1, by="host")}, "'push' counts by host; remove by='host'"),
        ({"largest_answer": -1}, "largest_answer must be a number of bytes"),
        ({"allow_private": "10.0.0.0/8"}, "allow_private must be true, false or a list of networks"),
        ({"allow_private": ["10.0.0.1/8"]}, "allow_private must have networks such as"),
        ({"allow_http": "yes"}, "allow_http must be true or false"),
        ({"ssl_context": True}, "ssl_context must be an ssl.SSLContext"),
        ({"callback_url": "ops.example"}, "callback_url must begin with https://"),
        ({"secret": SECRET}, "unknown option 'secret' .did you mean 'secrets'"),
    ],
)
def test_wrong_options(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        options(**given)


def test_secrets_are_not_shown() -> None:
    assert SECRET not in repr(options())
    assert "secrets" not in options().to_dict()
    assert '"allow_private":["10.0.0.0/8"]' in options(allow_private=["10.0.0.0/8"]).to_json()


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (7, "must be a URL such as"),
        ("", "must begin with https://"),
        ("app.example/jobs", "must begin with https://"),
        ("ftp://app.example", "must begin with https://"),
        ("https:///jobs", "must name a host"),
        ("https://app.example:0/", "must name a host"),
        ("https://app.example:x/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
        ("https://ann:secret@app.example/", "must have no user and password"),
        ("https://app.example/#top", "must have no fragment"),
        ("https://app.example/a b", "printable ASCII"),
        ("https://app.example/\r\nHost: x", "printable ASCII"),
        ("https://müsli.example/", "printable ASCII"),
        ("https://app.example/" + "a" * 2000, "at most 2000 characters, got 2020"),
    ],
)
def test_wrong_targets(target: object, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem) as refused:
        checked_target("target", target)
    assert "secret" not in str(refused.value)


def test_the_parts_of_a_target() -> None:
    assert PushTarget.of("https://App.example").authority == "app.example"
    assert PushTarget.of("https://app.example:8443/x").authority == "app.example:8443"
    assert PushTarget.of("http://[::1]:80/").authority == "[::1]"


def test_http_and_private_addresses_need_an_option() -> None:
    closed, open_ = options(), options(allow_private=True)
    assert closed.problem_of("https://app.example/") is None
    assert "must begin with https" in str(closed.problem_of("http://app.example/"))
    assert options(allow_http=True).problem_of("http://app.example/") is None
    assert "127.0.0.1 is not an address of the internet" in str(closed.problem_of("http://127.0.0.1/"))
    assert str(ipaddress.ip_address("::ffff:10.0.0.1")) in str(closed.problem_of("https://[::ffff:10.0.0.1]/"))
    for target in ("http://127.0.0.1/", "http://[::1]/", "http://localhost:8000/", "https://10.0.0.1/"):
        assert open_.problem_of(target) is None


def test_some_private_networks_can_be_allowed() -> None:
    some = options(allow_private=["10.0.0.0/8", "fd00::/8"])
    assert some.refusal(ipaddress.ip_address("10.9.9.9")) is None
    assert some.refusal(ipaddress.ip_address("fd00::1")) is None
    assert some.refusal(ipaddress.ip_address("127.0.0.1")) is not None


def test_each_host_has_its_own_limit() -> None:
    push = options(limit=[Limit("push", concurrency=2), Limit("push rate", rate=5, per=1)])
    one, other = push.host_limits("https://app.example/jobs")
    assert one.for_job({"host": "x"}).key == key_of("push", "app.example")
    assert (other.for_job(None).key, other.for_job(None).rate) == (key_of("push rate", "app.example"), 5)
