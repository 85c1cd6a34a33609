"""Names of queues and tasks."""

from __future__ import annotations

import pytest

from rowcall.domain.names import LONGEST_NAME, name_problem, queue_problem


@pytest.mark.parametrize("name", ["mail", "ä/ü 1", "x" * LONGEST_NAME])
def test_any_short_text_is_a_name(name: str) -> None:
    assert name_problem(name) is queue_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "must have 1 to 200 characters, got 0"),
        ("x" * 201, "must have 1 to 200 characters, got 201"),
        (5, "must be a string, got 5"),
        ("a\0b", r"must not contain a NUL character, got 'a\x00b'"),
        ("\ud800", r"must not contain half of a surrogate pair, got '\ud800'"),
    ],
)
def test_what_a_database_cannot_store_is_refused(name: object, problem: str) -> None:
    assert name_problem(name) == queue_problem(name) == problem


def test_the_word_for_every_queue_is_not_the_name_of_one() -> None:
    assert queue_problem("*") == "must not be '*', which means every queue"
    assert name_problem("*") is None
