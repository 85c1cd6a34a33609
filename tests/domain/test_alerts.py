"""The options of alerts. What is reported, and when, is in the conformance kit."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rowcall import Alerts, InvalidOption

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "alerts must name a url, a task or both, such as Alerts(url='https://…')"),
        ({"url": "hooks.example"}, "url must begin with https://, got 'hooks.example'"),
        ({"url": "https://ann:secret@hooks.example"}, "url must have no user and password: requests are signed"),
        ({"task": ""}, "task must have 1 to 200 characters, got 0"),
        ({"task": "report", "after": -1}, "after must be a duration from 0 s to 300 years, got -1"),
        ({"task": "report", "after": "1m"}, "after must be seconds or a timedelta, got '1m'"),
        ({"task": "report", "period": 1e9}, "period must be at most 2592000 seconds, got 1e+09"),
        ({"task": "report", "secrets": [SECRET]}, "secrets must come with url=…, because they sign what is sent there"),
        (
            {"url": "https://a.example", "secrets": ["abc"]},
            "secrets must begin with 'whsec_', and one of them does not",
        ),
        ({"url": "https://a.example", "dashboard": "ops"}, "dashboard must begin with https://, got 'ops'"),
        ({"url": "https://a.example", "aftr": 3}, "unknown option 'aftr' (did you mean 'after'?)"),
    ],
)
def test_options_say_what_is_wrong(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidOption) as raised:
        Alerts(**cast("Any", given))
    assert str(raised.value).startswith(problem)


def test_secrets_are_not_shown() -> None:
    shown = repr(Alerts(url="https://hooks.example/T0/B1", secrets=[SECRET], task="report"))
    assert "hooks.example" not in shown
    assert SECRET not in shown
    assert "report" in shown
