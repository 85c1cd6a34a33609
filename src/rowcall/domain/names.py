"""What is wrong with a name, a key or an error code, as the rest of a sentence: "must be …"."""

from __future__ import annotations

from rowcall.domain.job import EVERY_QUEUE

LONGEST_NAME = 200


def name_problem(name: object, longest: int = LONGEST_NAME) -> str | None:
    """Return what is wrong with the name of a queue or a task, or None."""
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
