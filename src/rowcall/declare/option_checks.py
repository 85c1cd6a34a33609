"""Checks of the options of tasks and jobs. Each returns the value for `Options`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rowcall.base.times import milliseconds_of
from rowcall.domain.backoff import Backoff, RetryPolicy
from rowcall.domain.checks import checked_text, name_problem, one_of
from rowcall.domain.errors import InvalidOption, seconds_of
from rowcall.domain.job import Chain, Job
from rowcall.domain.limits import Limit, checked_limits
from rowcall.domain.retention import DAY_SECONDS, Retention
from rowcall.store.new_job import Awaited, KeyOf
from rowcall.store.queries.flows import Blocker

MOST_TAGS = 50
SHORTEST_TIMEOUT_SECONDS = 0.001
LONGEST_KEY = 512
LONGEST_KEY_BYTES = 1800  # an index of PostgreSQL holds 2,704 bytes: the key, and the name of the task
LEAST_MEMORY_BYTES = 64 * 1024**2
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)


def aliases(option: str, value: object) -> tuple[str, ...]:
    names = _names(option, value)
    if len(set(names)) < len(names):
        raise InvalidOption(option, f"must differ from each other, got {list(names)!r}")
    return names


def events(option: str, value: object) -> tuple[str, ...]:
    """Return the events that a task runs on: one name, or several."""
    return tuple(dict.fromkeys(_names(option, [value] if isinstance(value, str) else value)))


def tags(option: str, value: object) -> tuple[str, ...]:
    names = _names(option, value)
    if len(names) > MOST_TAGS:
        raise InvalidOption(option, f"must have at most {MOST_TAGS} entries, got {len(names)}")
    return names


def _names(option: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption(option, f"must be a list of strings, got {value!r}")
    names = tuple(value)
    for one in names:
        if problem := name_problem(one):
            raise InvalidOption(option, f"each {problem}")
    return names


def milliseconds(option: str, value: object) -> int:
    return round(seconds_of(option, value) * 1000)  # type: ignore[arg-type]


def timeout(option: str, value: object) -> float:
    return seconds_of(option, value, SHORTEST_TIMEOUT_SECONDS)  # type: ignore[arg-type]


def window(option: str, value: object) -> int:
    return round(seconds_of(option, value, 0.001) * 1000)  # type: ignore[arg-type]


def batch_wait(option: str, value: object) -> float:
    seconds = seconds_of(option, value)  # type: ignore[arg-type]
    if seconds > DAY_SECONDS:
        raise InvalidOption(option, f"must be at most one day, got {value!r}")
    return seconds


def retry(option: str, value: object) -> RetryPolicy:
    if isinstance(value, Backoff) or callable(value):
        return value
    raise InvalidOption(option, f"must be a Backoff, or in task(…) a callable of (attempt, error), got {value!r}")


def retention(option: str, value: object) -> Retention:
    if not isinstance(value, Retention) or value.queues:
        raise InvalidOption(option, f"must be a Retention without queues, got {value!r}")
    return value


def key(option: str, value: object) -> str | KeyOf:
    return value if callable(value) else checked_text(option, value, key_problem(value))


def key_problem(value: object) -> str | None:
    """Return what is wrong with a key, or None."""
    if problem := name_problem(value, LONGEST_KEY):
        return problem
    size = len(str(value).encode())
    return f"must have at most {LONGEST_KEY_BYTES} bytes, got {size}" if size > LONGEST_KEY_BYTES else None


def after(option: str, value: object) -> tuple[Awaited, ...]:
    return tuple({awaited.blocker: awaited for awaited in map(awaited_of, one_or_more(value))}.values())


def one_or_more(value: object) -> list[object]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]


def awaited_of(value: object) -> Awaited:
    match value:
        case Job(id=job_id, type=task, created_at=created_at):
            return Awaited(Blocker(job_id), task, milliseconds_of(created_at))
        case Chain(id=chain_id, type=task, created_at=created_at):
            return Awaited(Blocker(chain_id, of_chain=True), task, milliseconds_of(created_at))
        case int() if not isinstance(value, bool) and 0 < value < 2**63:
            return Awaited(Blocker(value))
    raise InvalidOption("after", f"must be jobs, chains or ids of jobs, got {value!r}")


def limits(option: str, value: object) -> tuple[Limit, ...]:
    return checked_limits(value)


def isolation(option: str, value: object) -> bool:
    return one_of("thread", "process")(option, value) == "process"


def memory_limit(option: str, value: object) -> int:
    """Return bytes.

    >>> memory_limit("memory_limit", "1.5 GB") == 1536 * 1024**2
    True
    """
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    size = value if found is None else round(float(found[1]) * _UNITS[found[2].upper()])
    if isinstance(size, bool) or not isinstance(size, int) or size < LEAST_MEMORY_BYTES:
        least = f"{LEAST_MEMORY_BYTES // 1024**2}MB"
        raise InvalidOption(
            option, f"must be a size such as '512MB' or a number of bytes, at least {least}, got {value!r}"
        )
    return size
