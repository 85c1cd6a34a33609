"""Counts, durations, rates and sizes as people say them, and durations as people type them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeVar

import click

from rowcall.domain.job import Percentiles
from rowcall.queue.choosing import HIGHEST_RATE, LOWEST_RATE

T = TypeVar("T")

NOTHING = "-"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS = {"": 1, "s": 1, "m": _MINUTE, "min": _MINUTE, "h": _HOUR, "d": _DAY}
_TYPED = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.ASCII)


def duration(seconds: float | None) -> str:
    """In two units, the smaller of which tells what the greater leaves out.

    >>> [duration(seconds) for seconds in (0.0, 0.0123, 1.25, 42.4, 192, 7500, 200_000, None)]
    ['<1 ms', '12 ms', '1.2 s', '42 s', '3m 12s', '2h 05m', '2d 07h', '-']
    """
    if seconds is None:
        return NOTHING
    if seconds < 0.0005:
        return "<1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY:,}d {whole % _DAY // _HOUR:02}h"


def rounded(seconds: float | None) -> str:
    """What somebody has set: no smaller unit where it says nothing.

    >>> [rounded(seconds) for seconds in (30 * 86_400, 5400, 300, 0.5, None)]
    ['30 d', '90 min', '5 min', '500 ms', 'for ever']
    """
    if seconds is None:
        return "for ever"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:,.0f} {name}"
    return duration(seconds)


def rate(per_second: float) -> str:
    """
    >>> [rate(found) for found in (0, 12_345.6, 2.5, 0.1, 0.0001)]
    ['none', '12,346 a second', '2.5 a second', '6.0 a minute', '0.4 an hour']
    """
    if per_second <= 0:
        return "none"
    if per_second >= 1:
        return f"{per_second:,.0f} a second" if per_second >= 100 else f"{per_second:.1f} a second"
    if per_second >= 1 / _MINUTE:
        return f"{per_second * _MINUTE:.1f} a minute"
    return f"{per_second * _HOUR:.1f} an hour"


def size(count: int) -> str:
    """
    >>> [size(count) for count in (0, 2048, 5_400_000, 12 * 1024**3)]
    ['0 bytes', '2.0 KB', '5.1 MB', '12.0 GB']
    """
    if count < 1024:
        return f"{count} bytes"
    power = min(int(math.log(count, 1024)), 4)
    return f"{count / 1024**power:,.1f} {'KMGT'[power - 1]}B"


def counted(count: int, one: str, many: str | None = None) -> str:
    """
    >>> counted(1, "job"), counted(1_234_567, "job")
    ('1 job', '1,234,567 jobs')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def share(part: int, whole: int) -> str:
    """
    >>> share(1, 3), share(1, 1_000), share(999, 1_000), share(0, 0)
    ('33 %', '<1 %', '>99 %', '-')
    """
    if whole <= 0:
        return NOTHING
    percent = round(100 * part / whole)
    if percent == 0 and part:
        return "<1 %"
    return ">99 %" if percent == 100 and part < whole else f"{percent} %"


def of_percentiles(found: Percentiles | None) -> list[str]:
    return [duration(value) for value in ((found.p50, found.p95, found.p99) if found else (None, None, None))]


def first_of(rows: Sequence[T], most: int) -> tuple[Sequence[T], str]:
    """As many as a person reads, and what is said about the rest."""
    left = len(rows) - most
    return (rows, "") if left <= 0 else (rows[:most], f"and {left:,} more; --json has them all")


def typed_rate(typed: str) -> float:
    """
    >>> typed_rate("2.5")
    2.5
    """
    wanted = f"wants jobs per second, more than 0 and up to {HIGHEST_RATE:g}"
    try:
        rate = float(typed)
    except ValueError:
        raise click.BadParameter(f"{wanted}, not {typed!r}") from None
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise click.BadParameter(f"{wanted}, not {typed}")
    return rate


def typed_seconds(typed: str) -> float:
    """
    >>> typed_seconds("90"), typed_seconds("5m"), typed_seconds("1.5h")
    (90.0, 300.0, 5400.0)
    """
    found = _TYPED.fullmatch(typed)
    if found is None or found[2] not in _UNITS:
        raise click.BadParameter(f"{typed!r} is not a duration; write seconds, or 90s, 5m, 1h, 2d")
    return float(found[1]) * _UNITS[found[2]]
