"""Checks that several options share."""

from __future__ import annotations

import pytest

from rowcall import InvalidOption
from rowcall.domain import checks


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
