from __future__ import annotations

import pytest

from rowcall import InvalidOption, Limit
from rowcall.integrations.celery.options import limit_of, options_of_class, our_options, refused_options, task_settings


def test_options_of_tasks() -> None:
    settings = task_settings({"max_retries": None, "acks_late": True, "queue": "mail"})
    assert (settings.max_retries, settings.queue, settings.priority) == (None, "mail", None)
    refused = refused_options({"soft_time_limit": 5, "task_id": None, "acks_late": True, "max_retrys": 3})
    assert refused[0].startswith("soft_time_limit: use time_limit=")
    assert refused[1:] == ["unknown option 'max_retrys' (did you mean 'max_retries'?)"]


@pytest.mark.parametrize(
    ("given", "rate", "seconds"),
    [("10/m", 10, 60), ("100/s", 100, 1), ("5/h", 5, 3600), (3, 3, 1), ("7", 7, 1), (0.5, 1, 2), ("2.5/m", 5, 120)],
)
def test_a_rate_becomes_a_limit(given: object, rate: int, seconds: float) -> None:
    assert limit_of("shop.mail", given) == Limit("shop.mail", rate=rate, per=seconds)


def test_rates_that_are_none_or_wrong() -> None:
    assert limit_of("shop.mail", 0) is limit_of("shop.mail", "0/m") is None
    assert limit_of("x" * 300, 1) == Limit("x" * 100, rate=1, per=1)
    for wrong in ("10/d", "ten", "", "1/0", [3], True):
        with pytest.raises(InvalidOption, match="rate_limit must be a number per second, or a text such as '10/m'"):
            limit_of("shop.mail", wrong)
    with pytest.raises(InvalidOption, match="rate must be"):
        limit_of("shop.mail", -1)


def test_options_that_a_class_has() -> None:
    class Root:
        max_retries = 9

    class Child(Root):
        max_retries = 2
        soft_time_limit = 5
        other = 1

    assert options_of_class(Child, Root) == {"max_retries": 2, "soft_time_limit": 5}


def test_options_of_calls() -> None:
    assert our_options({"countdown": 5, "serializer": "json", "queue": None}) == {"delay": 5}
    with pytest.raises(InvalidOption, match="no equivalent in Rowcall") as refused:
        our_options({"routing_key": "mail", "headers": {}, "exchange": None})
    assert str(refused.value).splitlines()[1:] == [
        "  routing_key: use queue=…",
        "  headers: pass the values as arguments",
    ]
