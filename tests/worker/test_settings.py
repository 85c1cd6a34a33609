"""The options of a worker, as they are written and checked."""

from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.worker.pace import DEFAULT_CONCURRENCY
from rowcall.worker.settings import Queues, settings


@pytest.mark.parametrize(
    ("queues", "parsed", "text"),
    [
        (None, None, "*"),
        ("mail=10, default", {"mail": 10, "default": None}, "mail=10,default"),
        (["mail", "default"], {"mail": None, "default": None}, "mail,default"),
        ({"mail": 2}, {"mail": 2}, "mail=2"),
    ],
)
def test_queues_have_several_forms(queues: Queues, parsed: dict[str, int | None] | None, text: str) -> None:
    found = settings(queues=queues)
    assert (found.queues, found.queues_text) == (parsed, text)
    assert found.concurrency == DEFAULT_CONCURRENCY


@pytest.mark.parametrize(
    ("queues", "problem"),
    [
        ("", "empty"),
        ([], "must name a queue"),
        ("mail=many", "must be name or name=number"),
        ({"mail": 0}, "the limit of 'mail' must be a whole number above 0, got 0"),
        ("*", "leave queues out to serve all"),
    ],
)
def test_an_error_says_what_is_wrong_with_queues(queues: Queues, problem: str) -> None:
    with pytest.raises(InvalidOption, match=f"^queues.*{problem}"):
        settings(queues=queues)


def test_which_jobs_are_logged_is_one_of_three_words() -> None:
    assert settings().log_jobs == "auto"
    assert settings(log_jobs="failures").log_jobs == "failures"
    with pytest.raises(InvalidOption, match="log_jobs must be auto, all or failures, got 'none'"):
        settings(log_jobs="none")  # type: ignore[arg-type]


def test_served_queues_are_stored_as_json() -> None:
    assert settings(queues="mail=10,default").served == '["mail","default"]'
    assert settings().served is None
