"""The result of a check."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from rowcall.domain.errors import StoreUnavailable


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    PROBLEM = "problem"


class CheckResult(msgspec.Struct, frozen=True):
    level: Level
    check: str
    what: str
    advice: str = ""


def ok(check: str, what: str) -> CheckResult:
    return CheckResult(Level.OK, check, what)


def warn(check: str, what: str, advice: str) -> CheckResult:
    return CheckResult(Level.WARN, check, what, advice)


def problem(check: str, what: str, advice: str) -> CheckResult:
    return CheckResult(Level.PROBLEM, check, what, advice)


def unavailable(check: str, error: Exception) -> CheckResult:
    """Return the problem of an error that ended the checks."""
    what, advice = (error.problem, error.advice) if isinstance(error, StoreUnavailable) else (str(error), "")
    return problem(check, what, advice or "The other checks were skipped")
