"""Checks of option values. A check takes the option's name and a value, and returns the value or raises."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple, get_origin, get_type_hints

from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import EVERY_QUEUE

Check = Callable[[str, object], object]

LONGEST_NAME = 200


class Option(NamedTuple):
    """How an option is checked, and the field that holds what the check returns."""

    check: Check
    field: str


def options_of(kind: type) -> dict[str, Option]:
    """Return the options that a TypedDict declares as `delay: Annotated[float, check, "delay_ms"]`."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: Option(hint.__metadata__[0], (*hint.__metadata__, name)[1])
        for name, hint in hints.items()
        if get_origin(hint) is Annotated
    }


def all_checked(
    options: Mapping[str, Option], values: Mapping[str, object]
) -> tuple[dict[str, object], list[InvalidOption]]:
    """Return the checked values by field, and what is wrong with the others."""
    fields: dict[str, object] = {}
    problems: list[InvalidOption] = []
    for name, (check, field) in options.items():
        try:
            if name in values:
                fields[field] = check(name, values[name])
        except InvalidOption as error:
            problems.append(error)
    return fields, problems


def refuse_all(owner: str, problems: list[InvalidOption]) -> None:
    """Raise one `InvalidOption` with all problems, if there are any."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InvalidOption(owner, "; ".join(map(str, problems)))


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


def boolean(option: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidOption(option, f"must be True or False, got {value!r}")


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
