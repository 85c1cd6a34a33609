"""Celery's periodic tasks as schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec

from rowcall.domain.errors import InvalidOption
from rowcall.domain.schedule import DEFAULT_CATCH_UP, timing_of

OPTIONS = {"priority", "queue"}
Field = str | int | Iterable[int]


def crontab(
    minute: Field = "*",
    hour: Field = "*",
    day_of_week: Field = "*",
    day_of_month: Field = "*",
    month_of_year: Field = "*",
) -> str:
    """Return the times as a cron line.

    >>> crontab(minute=0, hour=(7, 19), day_of_week="mon-fri")
    '0 7,19 * * mon-fri'
    """
    minutes, hours, weekdays, days, months = map(_field, (minute, hour, day_of_week, day_of_month, month_of_year))
    if not (weekdays.startswith("*") or days.startswith("*")):
        advice = "give one of them, and test the other in the task"
        raise InvalidOption(
            "crontab", f"cannot have day_of_week and day_of_month: Celery needs both, cron one of them; {advice}"
        )
    return f"{minutes} {hours} {days} {months} {weekdays}"


def schedule(run_every: float | timedelta) -> float | timedelta:
    """Return an interval: `schedule(run_every=30)`."""
    return run_every


def _field(given: Field) -> str:
    return str(given) if isinstance(given, str | int) else ",".join(map(str, sorted(given)))


class BeatEntry(msgspec.Struct, frozen=True):
    """One entry of `beat_schedule`: a cron line, or an interval."""

    name: str
    task: str
    cron: str | None
    every: float | timedelta | None
    arguments: dict[str, object]
    options: dict[str, object]


def beat_entries(entries: Mapping[str, Mapping[str, object]], zone: str) -> list[BeatEntry]:
    """Check `beat_schedule`, and return its entries."""
    return [_entry(name, given, zone) for name, given in entries.items()]


def refused_of_entry(entry: BeatEntry) -> list[str]:
    return [f"{name}: a periodic task has only queue and priority" for name in entry.options if name not in OPTIONS]


def _entry(name: str, entry: Mapping[str, object], zone: str) -> BeatEntry:
    match entry.get("schedule"):
        case str() as cron:
            times: tuple[str | None, float | timedelta | None] = cron, None
        case int() | float() | timedelta() as every:
            times = None, every
        case other:
            raise InvalidOption(
                "beat_schedule", f"{name}: schedule must be crontab(…), seconds or timedelta, got {other!r}"
            )
    try:
        timing_of(*times, zone if times[0] is not None else None, DEFAULT_CATCH_UP)
    except InvalidOption as error:
        raise InvalidOption("beat_schedule", f"{name}: {error}") from error
    task, args, kwargs = entry.get("task"), entry.get("args", ()), entry.get("kwargs", {})
    if not isinstance(task, str):
        raise InvalidOption("beat_schedule", f"{name}: task must be the name of a task, got {task!r}")
    if not isinstance(args, list | tuple) or not isinstance(kwargs, dict):
        raise InvalidOption("beat_schedule", f"{name}: args must be a list, and kwargs a dict")
    options = entry.get("options", {})
    if not isinstance(options, dict):
        raise InvalidOption("beat_schedule", f"{name}: options must be a dict, got {options!r}")
    return BeatEntry(name, task, *times, {"args": list(args), "kwargs": kwargs}, options)
