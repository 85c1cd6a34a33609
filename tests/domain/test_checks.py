"""Checks of option values and names."""

from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.domain import checks
from rowcall.domain.checks import LONGEST_NAME, name_problem, queue_problem


@pytest.mark.parametrize("value", [0, 4, 1.0, True, "1", None])
def test_a_number_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(InvalidOption) as caught:
        checks.whole(1, 3)("batch", value)
    assert str(caught.value) == f"batch must be a whole number from 1 to 3, got {value!r}"
    assert [checks.whole(1, 3)("batch", number) for number in (1, 3)] == [1, 3]


def test_a_word_is_one_of_those_known() -> None:
    check = checks.one_of("skip", "one", "all")
    assert check("catch_up", "one") == "one"
    with pytest.raises(InvalidOption, match="catch_up must be skip, one or all, got 'two'"):
        check("catch_up", "two")


def test_names() -> None:
    assert (checks.name("name", "*"), checks.queue("queue", "mail")) == ("*", "mail")
    with pytest.raises(InvalidOption, match=r"queue must not be '\*', which means every queue"):
        checks.queue("queue", "*")


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
