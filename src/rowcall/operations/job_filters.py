"""Which jobs a filter means, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from rowcall.base.text import CODE_LENGTH
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import EVERY_QUEUE, FINISHED, WAITING, Status
from rowcall.domain.names import name_problem
from rowcall.store.control.bulk_actions import Wanted

HIGHEST_RATE = 1000.0
LOWEST_RATE = 1 / 3600
KEY_LENGTH = 512


class Choice(TypedDict, total=False):
    status: str | None
    queue: str | None
    type: str | None
    tag: str | None
    limit: int | None


class Cancelled(Choice, total=False):
    """Which jobs `cancel` is about. A `key` belongs to a `type`; `limit` is how many at most."""

    key: str | None


class Retried(Choice, total=False):
    """Which jobs `retry` is about, and at how many a second (`rate`) they become due."""

    error_code: str | None
    rate: float | None


def meant_to_be_cancelled(given: Mapping[str, object]) -> Wanted:
    _check("cancel", given, set(Cancelled.__annotations__) | set(Choice.__annotations__))
    key = given.get("key")
    if key is not None and given.get("type") is None:
        raise InvalidOption("key", "belongs to a task: give type=… with it")
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= KEY_LENGTH):
        raise InvalidOption("key", f"wants a text of 1 to {KEY_LENGTH} characters, not {key!r}")
    return _wanted(given, (*WAITING, Status.RUNNING), None)


def meant_to_be_retried(given: Mapping[str, object]) -> Wanted:
    _check("retry", given, set(Retried.__annotations__) | set(Choice.__annotations__))
    code = given.get("error_code")
    if code is not None and (not isinstance(code, str) or not 1 <= len(code) <= CODE_LENGTH + 1):
        raise InvalidOption("error_code", f"wants a code such as TIMEOUT:HANDLER or TIMEOUT:*, not {code!r}")
    rate = given.get("rate")
    if rate is not None and not _is_rate(rate):
        raise InvalidOption("rate", f"wants jobs per second, up to {HIGHEST_RATE:g}, not {rate!r}")
    return _wanted(given, FINISHED, Status.FAILED)


def checked_pause(queue: object, task: object) -> tuple[str, str]:
    """What is to be paused or resumed: its kind, and its name."""
    if (queue is None) == (task is None):
        raise InvalidOption("queue", "wants the name of a queue, or task=… instead")
    kind, name = ("queue", queue) if queue is not None else ("task", task)
    if task == EVERY_QUEUE:
        raise InvalidOption("task", f"{task!r} is not a task; to pause or resume everything, name the queue {task!r}")
    if problem := name_problem(name):
        raise InvalidOption(kind, problem)
    return kind, str(name)


def refuse_filter(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None:
            raise InvalidOption(option, "cannot be given together with the id of a job")


def _check(verb: str, given: Mapping[str, object], allowed: set[str]) -> None:
    for option in given:
        if option not in allowed:
            raise InvalidOption(option, f"is no filter; there are {', '.join(sorted(allowed))}")
    for option in ("queue", "type", "tag"):
        name = given.get(option)
        if name is not None and (problem := name_problem(name)):
            raise InvalidOption(option, problem)
    limit = given.get("limit")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidOption("limit", f"wants a whole number above 0, not {limit!r}")
    if all(value is None for option, value in given.items() if option not in ("limit", "rate")):
        raise InvalidOption(verb, f"says {verb} everything: give status=… or queue=…")


def _wanted(given: Mapping[str, object], possible: tuple[Status, ...], usual: Status | None) -> Wanted:
    status = given.get("status") or usual
    if status is not None and status not in possible:
        raise InvalidOption("status", f"wants one of {', '.join(possible)}, not {status!r}")
    chosen = {name: given.get(name) for name in ("queue", "type", "tag", "key", "error_code", "limit")}
    return Wanted(statuses=possible if status is None else (Status(str(status)),), **chosen)  # type: ignore[arg-type]


def _is_rate(rate: object) -> bool:
    return isinstance(rate, int | float) and not isinstance(rate, bool) and LOWEST_RATE <= rate <= HIGHEST_RATE
