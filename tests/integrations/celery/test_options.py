from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.integrations.celery.options import options_of_class, our_options, task_settings


def test_options_of_tasks() -> None:
    settings = task_settings({"max_retries": None, "acks_late": True, "queue": "mail"})
    assert (settings.max_retries, settings.queue, settings.priority) == (None, "mail", None)
    with pytest.raises(InvalidOption, match="rate_limit has no equivalent in Rowcall: declare a Rowcall task"):
        task_settings({"rate_limit": "10/m"})


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
    with pytest.raises(InvalidOption, match="routing_key has no equivalent in Rowcall: use queue"):
        our_options({"routing_key": "mail"})
