"""Whose job it is, and how much it weighs."""

from __future__ import annotations

import pytest

from rowcall import InvalidArguments, InvalidOption
from rowcall.domain.fairness import FairBy, OrderedBy, Shared, Sharing, checked_weight

FAIR = FairBy("customer", "send", missing=7)


def test_a_job_shares_by_the_json_of_its_value() -> None:
    sharing = Sharing(FAIR, OrderedBy("account", "send", blocks=True))
    payload = {"customer": "ü", "account": None}
    assert sharing.for_job("send", payload) == Shared('["send","ü"]', None, '["send",null]', 1)
    assert Sharing(FairBy("customer")).for_job("send", payload) == Shared('[null,"ü"]')


def test_a_job_without_the_argument_has_its_default() -> None:
    assert FAIR.of("send", {}) == ('["send",7]', None)


def test_numbers_that_are_equal_are_one_value() -> None:
    assert FAIR.of("send", {"customer": 1.0}) == FAIR.of("send", {"customer": 1})


@pytest.mark.parametrize("value", [[], [1], {}, {"a": 1}])
def test_a_value_that_cannot_be_hashed_is_refused(value: object) -> None:
    with pytest.raises(InvalidArguments, match=r"send: fair_by='customer' needs a value that can be hashed, .*got"):
        FAIR.of("send", {"customer": value})


def test_weights_are_looked_up_or_computed() -> None:
    for weight in ({"A": 3}, lambda value: 3 if value == "A" else 1):
        fair = FairBy("customer", "send", checked_weight("weight", weight))
        assert [fair.of("send", {"customer": one})[1] for one in "AB"] == [3, 1]
    with pytest.raises(InvalidOption, match="got 1001"):
        checked_weight("weight", {"A": 1001})
