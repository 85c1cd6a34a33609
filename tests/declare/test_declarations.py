from __future__ import annotations

import pytest

from rowcall.declare.declarations import Declarations


def test_the_last_declarations_are_made_once_and_may_declare_more() -> None:
    declared, calls = Declarations(), list[str]()

    def declare_more() -> None:
        calls.append("first")
        declared.last.append(lambda: calls.append("more"))

    declared.last.append(declare_more)
    for _ in range(2):
        declared.finish()
    assert calls == ["first", "more"]


def test_a_last_declaration_that_fails_is_made_again() -> None:
    declared, calls = Declarations(), list[int]()
    declared.last += [lambda: calls.append(1), lambda: calls.append(1 // len(calls[1:]))]
    with pytest.raises(ZeroDivisionError):
        declared.finish()
    calls.append(2)
    declared.finish()
    assert (calls, declared.last) == ([1, 2, 1], [])
