"""Celery's periodic tasks as schedules."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from rowcall.domain.errors import InvalidOption

OPTIONS = {"priority", "queue"}


def crontab(
    minute: str | int = "*",
    hour: str | int = "*",
    day_of_week: str | int = "*",
    day_of_month: str | int = "*",
    month_of_year: str | int = "*",
) -> str:
    """Return the times as a cron line.

    >>> crontab(minute=0, hour="7,19", day_of_week="mon-fri")
    '0 7,19 * * mon-fri'
    """
    return f"{minute} {hour} {day_of_month} {month_of_year} {day_of_week}"


class BeatEntry(msgspec.Struct, frozen=True):
    """One entry of `beat_schedule`: a cron line, or an interval."""

    name: str
    task: str
    cron: str | None
    every: float | timedelta | None
    arguments: dict[str, object]
    options: dict[str, object]


def beat_entries(schedule: Mapping[str, Mapping[str, object]]) -> list[BeatEntry]:
    """Check `beat_schedule`, and return its entries."""
    return [_entry(name, given) for name, given in schedule.items()]


def _entry(name: str, given: Mapping[str, object]) -> BeatEntry:
    match given.get("schedule"):
        case str() as cron:
            times: tuple[str | None, float | timedelta | None] = cron, None
        case int() | float() | timedelta() as every:
            times = None, every
        case other:
            raise InvalidOption(
                "beat_schedule", f"{name}: schedule must be crontab(…), seconds or timedelta, got {other!r}"
            )
    task, args, kwargs = given.get("task"), given.get("args", ()), given.get("kwargs", {})
    if not isinstance(task, str):
        raise InvalidOption("beat_schedule", f"{name}: task must be the name of a task, got {task!r}")
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise InvalidOption("beat_schedule", f"{name}: args must be a list, and kwargs a dict")
    options = given.get("options", {})
    if not isinstance(options, dict) or not options.keys() <= OPTIONS:
        raise InvalidOption(
            "beat_schedule", f"{name}: options may have {' and '.join(sorted(OPTIONS))}, got {options!r}"
        )
    return BeatEntry(name, task, *times, {"args": list(args), "kwargs": kwargs}, options)
