"""Times, ages, counts, rates and sizes for people. `rowcall.base.text` has durations."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, tzinfo

from rowcall.base.text import NOTHING, duration
from rowcall.base.times import time_of
from rowcall.domain.step import FOREVER_MS

SIGNALLED = "when signalled"
_FOREVER = time_of(FOREVER_MS)
_MINUTE, _HOUR = 60, 3600
# quoted words of a command may have a semicolon in them
_STEP = re.compile("(?:'[^']*'|[^;]|;(?! ))+")
_COMMAND = re.compile(r"(?:(?<=: )(?:rowcall|pip) |^rowcall [a-z-]+ app:jobs\b).*$")


def moment(at: datetime | None, zone: tzinfo | None = UTC) -> str:
    """Return a time in a zone; None is that of this machine.

    >>> moment(datetime(2026, 1, 2, 3, 4, 5, 678000, UTC))
    '2026-01-02 03:04:05.678'
    """
    return "" if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def exact(at: datetime, zone: tzinfo | None = UTC) -> str:
    """Return a time as a person reads it, with the name of its zone.

    >>> exact(datetime(2026, 1, 2, 3, 4, tzinfo=UTC)), exact(_FOREVER)
    ('2026-01-02 03:04:00.000 UTC', 'when signalled')
    """
    return SIGNALLED if at == _FOREVER else f"{moment(at, zone)} {at.astimezone(zone):%Z}"


def zone_name(zone: tzinfo | None) -> str:
    """Return what a heading says of times: the offset of a local zone may change between them."""
    return "local" if zone is None else str(zone)


def to_the_second(at: datetime, zone: tzinfo | None = UTC) -> str:
    """
    >>> to_the_second(datetime(2026, 1, 2, 3, 4, 5, 678000, UTC))
    '2026-01-02 03:04:05 UTC'
    """
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def at_least(number: int, more: bool) -> str:
    """Return a number; if there may be more, with a plus.

    >>> at_least(1200, False), at_least(100_000, True)
    ('1,200', '100,000+')
    """
    return f"{number:,}{'+' if more else ''}"


def ago(at: datetime | None, now: datetime) -> str:
    """Return how long ago, or in how long.

    >>> ago(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 5, tzinfo=UTC))
    '5 min ago'
    """
    if at is None:
        return NOTHING
    if at == _FOREVER:
        return SIGNALLED
    seconds = (now - at).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def in_one_unit(*per_second: float) -> tuple[list[str], str]:
    """Return rates as numbers of one unit, and the unit: that of the highest.

    >>> in_one_unit(12_345.6, 2.5), in_one_unit(0.1, 0.0011), in_one_unit(0)
    ((['12,346', '2.5'], 'per second'), (['6.0', '0.07'], 'per minute'), (['0'], 'per minute'))
    """
    highest = max(per_second, default=0)
    seconds, unit = (1, "per second") if highest >= 1 else (_MINUTE, "per minute")
    if 0 < highest < 1 / _MINUTE:
        seconds, unit = _HOUR, "per hour"
    return [_short(one * seconds) for one in per_second], unit


def _short(number: float) -> str:
    if number >= 100 or number <= 0:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 1 else f"{number:.2f}" if number >= 0.01 else "<0.01"


def size(count: int) -> str:
    """
    >>> [size(count) for count in (0, 2048, 5_400_000, 12 * 1024**3)]
    ['0 bytes', '2.0 KB', '5.1 MB', '12.0 GB']
    """
    if count < 1024:
        return f"{count} bytes"
    power = min(int(math.log(count, 1024)), 4)
    return f"{count / 1024**power:,.1f} {'KMGT'[power - 1]}B"


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "job"), counted(1_234_567, "job")
    ('1 job', '1,234,567 jobs')
    """
    return f"{count:,} {noun if count == 1 else f'{noun}s'}"


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


def steps_of(advice: str) -> list[tuple[str, str]]:
    """Return what an advice says to do, one thing at a time: words, and the command that they end with.

    >>> steps_of("See the error: rowcall errors app:jobs; or wait")
    [('See the error: ', 'rowcall errors app:jobs'), ('or wait', '')]
    """
    steps = []
    for match in _STEP.finditer(advice):
        step = match[0].strip()
        command = _COMMAND.search(step)
        steps.append((step, "") if command is None else (step[: command.start()], command[0]))
    return steps
