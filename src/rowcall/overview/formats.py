"""Times, durations, counts, rates and sizes for people."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from rowcall.base.text import span

NOTHING = "-"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def moment(at: datetime | None) -> str:
    """
    >>> moment(datetime(2026, 1, 2, 3, 4, 5, 678000, UTC))
    '2026-01-02 03:04:05.678'
    """
    return "" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def ago(at: datetime | None, now: datetime) -> str:
    """Return how long ago, or in how long, in one unit.

    >>> ago(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 5, tzinfo=UTC))
    '5 min ago'
    """
    if at is None:
        return NOTHING
    seconds = (now - at).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def duration(seconds: float | None) -> str:
    """Return a measured duration, in two units where one is too coarse.

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


def period(seconds: float | None) -> str:
    """Return a configured duration, in the largest unit that divides it.

    >>> [period(seconds) for seconds in (30 * 86_400, 5400, 300, 0.5, None)]
    ['30 d', '90 min', '5 min', '500 ms', 'forever']
    """
    if seconds is None:
        return "forever"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:,.0f} {name}"
    return duration(seconds)


def rate(per_second: float) -> str:
    """
    >>> [rate(found) for found in (0, 12_345.6, 2.5, 0.1, 0.0001)]
    ['none', '12,346 per second', '2.5 per second', '6.0 per minute', '0.4 per hour']
    """
    if per_second <= 0:
        return "none"
    if per_second >= 1:
        return f"{per_second:,.0f} per second" if per_second >= 100 else f"{per_second:.1f} per second"
    if per_second >= 1 / _MINUTE:
        return f"{per_second * _MINUTE:.1f} per minute"
    return f"{per_second * _HOUR:.1f} per hour"


def size(count: int) -> str:
    """
    >>> [size(count) for count in (0, 2048, 5_400_000, 12 * 1024**3)]
    ['0 bytes', '2.0 KB', '5.1 MB', '12.0 GB']
    """
    if count < 1024:
        return f"{count} bytes"
    power = min(int(math.log(count, 1024)), 4)
    return f"{count / 1024**power:,.1f} {'KMGT'[power - 1]}B"


def counted(count: int, one: str) -> str:
    """
    >>> counted(1, "job"), counted(1_234_567, "job")
    ('1 job', '1,234,567 jobs')
    """
    return f"{count:,} {one if count == 1 else f'{one}s'}"


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
