"""What users may type stays, or a new minor version says that it is gone: docs/stability.md."""

from __future__ import annotations

import pytest

from rowcall.domain.config import VERSION
from tests.stability.public_api import broken, public_api, stored


def test_nothing_that_users_type_is_gone() -> None:
    release = ".".join(VERSION.split(".")[:2])
    assert broken(stored(release), public_api()) == []


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (["a"], None, "f is gone"),
        (["a", "b"], ["b", "a"], "f: the parameters in their places were ['a', 'b'] and are ['b', 'a']"),
        (["a", "*b="], ["a"], "f: the parameter 'b' is gone"),
        (["a="], ["a"], "f: the parameter 'a' must be given now"),
        (["a"], ["a", "*b"], "f: the parameter 'b' must be given now"),
    ],
)
def test_what_breaks_a_call_is_found(before: list[str], after: list[str] | None, problem: str) -> None:
    assert broken({"f": before}, {} if after is None else {"f": after}) == [problem]


@pytest.mark.parametrize("after", [["a", "b="], ["a", "b=", "c="], ["a", "b=", "*c="]])
def test_what_is_added_breaks_nothing(after: list[str]) -> None:
    assert broken({"f": ["a", "b="]}, {"f": after, "g": ["x"]}) == []
