"""Checks of option values. A check takes the option's name and a value, and returns the value or raises."""

from __future__ import annotations

from collections.abc import Callable

from rowcall.domain.errors import InvalidOption
from rowcall.domain.names import name_problem, queue_problem

Check = Callable[[str, object], object]


def anything(option: str, value: object) -> object:
    return value


def name(option: str, value: object) -> str:
    return checked_text(option, value, name_problem(value))


def queue(option: str, value: object) -> str:
    return checked_text(option, value, queue_problem(value))


def checked_text(option: str, value: object, problem: str | None) -> str:
    if problem is not None:
        raise InvalidOption(option, problem)
    return str(value)


def whole(lowest: int, highest: int, what: str = "a whole number") -> Callable[[str, object], int]:
    def check(option: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
            raise InvalidOption(option, f"must be {what} from {lowest} to {highest}, got {value!r}")
        return value

    return check


def one_of(*known: str) -> Callable[[str, object], str]:
    def check(option: str, value: object) -> str:
        if value not in known:
            raise InvalidOption(option, f"must be {', '.join(known[:-1])} or {known[-1]}, got {value!r}")
        return str(value)

    return check
