from __future__ import annotations

import pytest

from rowcall import Access, InvalidOption
from rowcall.http.server_options import HttpOptions, settings

TOKEN = "x" * 16


def test_without_options_it_is_open() -> None:
    assert settings().is_open
    assert not settings(token=TOKEN).is_open
    assert not settings(authorize=lambda request: None).is_open


def test_tokens_may_have_names() -> None:
    found = settings(token={"ann": TOKEN}, read_token="y" * 16).tokens
    assert found == {TOKEN: Access("ann", "operate"), "y" * 16: Access("read token", "read")}


def test_a_trace_has_a_link_if_it_is_configured() -> None:
    found = settings(trace_url="https://traces.example.com/{trace_id}?job={job_id}")
    assert found.trace_link("ab", 7) == "https://traces.example.com/ab?job=7"
    assert found.trace_link(None, 7) is settings().trace_link("ab", 7) is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"token": "short"}, "token must be a secret of 16 or more"),
        ({"token": {"ann": ""}}, "token must be a secret"),
        ({"token": TOKEN, "read_token": TOKEN}, "read_token must differ"),
        ({"authorize": 3}, "authorize must be a function"),
        ({"authorize": print, "login_url": "login"}, "login_url must be a path or a web address, got 'login'"),
        ({"authorize": print, "login_url": "//evil.example"}, "login_url must be a path or a web address"),
        ({"token": TOKEN, "login_url": "/login"}, "login_url needs authorize="),
        ({"hosts": "example.com"}, "hosts must be a list"),
        ({"origins": [3]}, "origins must be a list"),
        ({"trace_url": "https://traces.example.com/"}, "trace_url must be a web address with {trace_id}"),
        ({"trace_url": "javascript:alert('{trace_id}')"}, "trace_url must be a web address"),
        (
            {"trace_url": "https://traces.example.com/{trace_id}/{span}"},
            r"cannot have \{span\}",
        ),
        ({"tokn": TOKEN}, "unknown option 'tokn' .did you mean 'token'"),
    ],
)
def test_wrong_options(options: HttpOptions, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem):
        settings(**options)
