"""Checks of option values. A check takes the option's name and a value, and returns the value or raises."""

from __future__ import annotations

from collections.abc import Callable

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import EVERY_QUEUE

Check = Callable[[str, object], object]

LONGEST_NAME = 200


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


def name_problem(name: object, longest: int = LONGEST_NAME) -> str | None:
    """Return what is wrong with the name of a queue or a task, as the rest of a sentence ("must be …"), or None."""
    if not isinstance(name, str):
        return f"must be a string, got {name!r}"
    if not name or len(name) > longest:
        return f"must have 1 to {longest} characters, got {len(name)}"
    if "\0" in name:
        return f"must not contain a NUL character, got {name!r}"
    try:
        name.encode()
    except UnicodeEncodeError:
        return f"must not contain half of a surrogate pair, got {name!r}"
    return None


def queue_problem(name: object) -> str | None:
    """Return what is wrong with the name of a queue, or None."""
    if name == EVERY_QUEUE:
        return f"must not be {name!r}, which means every queue"
    return name_problem(name)
