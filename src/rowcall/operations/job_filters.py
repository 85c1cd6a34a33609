"""Which jobs `cancel` and `retry` mean by a filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from rowcall.base.text import CODE_LENGTH, did_you_mean
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import FINISHED, WAITING, Status
from rowcall.domain.names import name_problem
from rowcall.store.control.bulk_actions import Wanted

HIGHEST_RATE = 1000.0
LOWEST_RATE = 1 / 3600
KEY_LENGTH = 512


class JobFilter(TypedDict, total=False):
    status: str | None
    queue: str | None
    type: str | None
    tag: str | None
    limit: int | None


class CancelFilter(JobFilter, total=False):
    """The jobs to cancel. A `key` needs a `type`; `limit` is the highest number of jobs."""

    key: str | None


class RetryFilter(JobFilter, total=False):
    """The jobs to retry, and how many of them become due per second (`rate`)."""

    error_code: str | None
    rate: float | None


def jobs_to_cancel(given: Mapping[str, object]) -> Wanted:
    _check("cancel", given, {*CancelFilter.__annotations__, *JobFilter.__annotations__})
    key = given.get("key")
    if key is not None and given.get("type") is None:
        raise InvalidOption("key", "belongs to a task: pass type=… with it")
    if key is not None and (not isinstance(key, str) or not 1 <= len(key) <= KEY_LENGTH):
        raise InvalidOption("key", f"must be a text of 1 to {KEY_LENGTH} characters, got {key!r}")
    return _wanted(given, (*WAITING, Status.RUNNING), None)


def jobs_to_retry(given: Mapping[str, object]) -> Wanted:
    _check("retry", given, {*RetryFilter.__annotations__, *JobFilter.__annotations__})
    code = given.get("error_code")
    if code is not None and (not isinstance(code, str) or not 1 <= len(code) <= CODE_LENGTH + 1):
        raise InvalidOption("error_code", f"must be a code such as TIMEOUT:HANDLER or TIMEOUT:*, got {code!r}")
    rate = given.get("rate")
    if rate is not None and not _is_rate(rate):
        raise InvalidOption("rate", f"must be a number of jobs per second, up to {HIGHEST_RATE:g}, got {rate!r}")
    return _wanted(given, FINISHED, Status.FAILED)


def refuse_filter(given: Mapping[str, object]) -> None:
    for option, value in given.items():
        if value is not None:
            raise InvalidOption(option, "is a filter, and cannot be combined with a job")


def _check(verb: str, given: Mapping[str, object], allowed: set[str]) -> None:
    for option in given:
        if option not in allowed:
            raise InvalidOption(
                option, f"unknown filter{did_you_mean(option, allowed)}; there are {', '.join(sorted(allowed))}"
            )
    for option in ("queue", "type", "tag"):
        name = given.get(option)
        if name is not None and (problem := name_problem(name)):
            raise InvalidOption(option, problem)
    limit = given.get("limit")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidOption("limit", f"must be a whole number above 0, got {limit!r}")
    if all(value is None for option, value in given.items() if option not in ("limit", "rate")):
        raise InvalidOption(verb, "this matches every job; add a filter such as status=… or queue=…")


def _wanted(given: Mapping[str, object], possible: tuple[Status, ...], usual: Status | None) -> Wanted:
    status = given.get("status") or usual
    if status is not None and status not in possible:
        raise InvalidOption("status", f"must be one of {', '.join(possible)}, got {status!r}")
    chosen = {name: given.get(name) for name in ("queue", "type", "tag", "key", "error_code", "limit")}
    return Wanted(statuses=possible if status is None else (Status(str(status)),), **chosen)  # type: ignore[arg-type]


def _is_rate(rate: object) -> bool:
    return isinstance(rate, int | float) and not isinstance(rate, bool) and LOWEST_RATE <= rate <= HIGHEST_RATE
