"""When schedules tick: cron lines in time zones, fixed periods, and what happens to missed ticks.

Lines are parsed by cronsim, as Debian's cron does. That includes changes of the clock: a line whose minute or hour
begins with `*` follows local time as it is shown. A line at fixed times runs once: at the end of an hour that is
skipped, and in the first of two equal hours.
"""

from __future__ import annotations

import importlib.util
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, get_args

import msgspec

from rowcall.base.text import did_you_mean
from rowcall.base.times import milliseconds_of, time_of
from rowcall.domain.checks import one_of
from rowcall.domain.errors import InvalidOption, seconds_of

CatchUp = Literal["skip", "one", "all"]

DEFAULT_ZONE = "UTC"
DEFAULT_CATCH_UP: CatchUp = "one"
SHORTEST_PERIOD_SECONDS = 0.1
TIMELY_MS = 60_000  # a tick that is later was missed
HOUR_MS = 3_600_000
LONGEST_LINE = 500
_BACK_AT_MOST = timedelta(hours=3)
_MINUTE = timedelta(minutes=1)
_SOME_DAY = datetime(2000, 1, 1)
_ALL = ("*",) * 5
_catch_up = one_of(*get_args(CatchUp))
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class _Field(NamedTuple):
    name: str
    values: int
    allowed: str


_FIELDS = (
    _Field("minute", 60, "0-59"),
    _Field("hour", 24, "0-23"),
    _Field("day of the month", 31, "1-31, L (the last one), LW (the last from Monday to Friday)"),
    _Field("month", 12, "1-12, JAN-DEC"),
    _Field("day of the week", 7, "0-7 (0 and 7 are Sunday), SUN-SAT, 5L (the last Friday), MON#2 (the second Monday)"),
)


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """When a schedule ticks: by a cron line in a time zone, or at multiples of a period since 1970."""

    cron: str | None = None
    every_ms: int | None = None
    zone: str = DEFAULT_ZONE
    catch_up: str = DEFAULT_CATCH_UP


class Due(NamedTuple):
    """The ticks to enqueue now, and the next one."""

    ticks: list[int]
    following_ms: int | None


def timing_of(cron: object, every: object, tz: object, catch_up: object) -> Timing:
    """Return the timing of a schedule, or raise `InvalidOption` that names the wrong field.

    >>> timing_of("0 9 * * mon-fri", None, "Europe/Berlin", "one").zone
    'Europe/Berlin'
    >>> timing_of("@daily", None, None, "one").cron
    '0 0 * * *'
    >>> timing_of("0 25 * * *", None, None, "one")
    Traceback (most recent call last):
    rowcall.InvalidOption: cron: '0 25 * * *': field 2 (hour) cannot be '25'; allowed: 0-23, \
*, lists such as 1,2, ranges such as 1-5, and steps such as */5 (at most 24)
    """
    _catch_up("catch_up", catch_up)
    if (cron is None) == (every is None):
        raise InvalidOption("cron", "pass either a cron line or every=…")
    if every is not None:
        if tz is not None:
            raise InvalidOption("tz", "needs a cron line; every=… does not depend on a time zone")
        return Timing(every_ms=_period_ms(every), catch_up=str(catch_up))
    zone = DEFAULT_ZONE if tz is None else _zone_name(tz)
    return Timing(cron=_checked_line(cron), zone=zone, catch_up=str(catch_up))


def check_timing(timing: Timing) -> None:
    """Raise `InvalidOption` if plain SQL wrote a wrong timing."""
    _catch_up("catch_up", timing.catch_up)
    if timing.every_ms is None:
        _checked_line(timing.cron)
        _zone(timing.zone)
    elif timing.every_ms < 1:
        raise InvalidOption("every", f"must be at least 1 ms, got {timing.every_ms}")


def next_tick(timing: Timing, after_ms: int) -> int | None:
    """Return the first tick after a time, or None if there is none within 50 years."""
    if timing.every_ms is not None:
        return (after_ms // timing.every_ms + 1) * timing.every_ms
    if timing.cron is None:
        raise InvalidOption("cron", "the schedule has neither a cron line nor a period")
    after = time_of(after_ms)
    zone = _zone(timing.zone)
    found = _next_fixed(timing.cron, zone, after) if _is_fixed(timing.cron) else _next_wild(timing.cron, zone, after)
    return None if found is None else milliseconds_of(found)


def due_ticks(timing: Timing, next_ms: int, now_ms: int, most: int) -> Due:
    """Return what is due of a schedule whose next tick is `next_ms`, at most `most` ticks."""
    if timing.catch_up == "one":
        return Due([_last_tick(timing, next_ms, now_ms)], next_tick(timing, now_ms))
    missed = timing.catch_up == "skip" and now_ms - next_ms > TIMELY_MS
    at = next_tick(timing, now_ms - TIMELY_MS - 1) if missed else next_ms
    ticks: list[int] = []
    while at is not None and at <= now_ms and len(ticks) < most:
        ticks.append(at)
        at = next_tick(timing, at)
    return Due(ticks, at)


def _last_tick(timing: Timing, first_ms: int, now_ms: int) -> int:
    """Return the last tick up to now, from the first one on. It searches ever longer stretches of the past."""
    if timing.every_ms is not None:
        return max(first_ms, now_ms - now_ms % timing.every_ms)
    stretch_ms, at = HOUR_MS, None
    while at is None or at > now_ms:
        start_ms = max(first_ms, now_ms - stretch_ms)
        at = first_ms if start_ms == first_ms else next_tick(timing, start_ms - 1)
        stretch_ms *= 4
    while (following := next_tick(timing, at)) is not None and following <= now_ms:
        at = following
    return at


# lines


def _checked_line(line: object) -> str:
    if not isinstance(line, str):
        raise InvalidOption("cron", f"must be a string such as '0 9 * * *' or '@daily', got {line!r}")
    if len(line) > LONGEST_LINE:
        raise InvalidOption("cron", f"must have at most {LONGEST_LINE} characters, got {len(line)}")
    if line.strip().startswith("@") and line.strip().lower() not in _NAMED:
        known = did_you_mean(line.strip(), _NAMED) or f"; known: {', '.join(_NAMED)}"
        raise InvalidOption("cron", f"unknown name {line!r}{known}")
    fields = _NAMED.get(line.strip().lower(), line).split()
    if len(fields) != len(_FIELDS):
        wanted = ", ".join(field.name for field in _FIELDS)
        more = "; for periods below a minute use every=…" if len(fields) == 6 else ""
        raise InvalidOption("cron", f"{line!r} must have 5 fields ({wanted}), got {len(fields)}{more}")
    for index, text in enumerate(fields):
        for term in text.split(","):
            if not _is_well_formed(term, index):
                raise InvalidOption("cron", f"{line!r}: {_fault(index, term, text)}")
    line = " ".join(fields)
    walls = _simulated(line, _SOME_DAY)
    if walls is None or next(walls, None) is None:
        _, _, day, month, weekday = fields
        raise InvalidOption("cron", f"{line!r} never ticks: month {month} has no day {day} with weekday {weekday}")
    return line


def _is_well_formed(term: str, index: int) -> bool:
    if _simulated(" ".join((*_ALL[:index], term, *_ALL[index + 1 :])), _SOME_DAY) is None:
        return False
    _, _, step = term.partition("/")
    return not step or int(step) <= _FIELDS[index].values


def _fault(index: int, term: str, text: str) -> str:
    field = _FIELDS[index]
    where = "" if term == text else f" in {text!r}"
    return (
        f"field {index + 1} ({field.name}) cannot be {term!r}{where}; allowed: {field.allowed},"
        f" *, lists such as 1,2, ranges such as 1-5, and steps such as */5 (at most {field.values})"
    )


def _simulated(line: str, after: datetime) -> Iterator[datetime] | None:
    """Return the local times of the ticks after `after`, without clock changes, or None if the line is malformed."""
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError:
        raise InvalidOption("cron", "needs cronsim: pip install 'rowcall[cron]'") from None
    try:
        return CronSim(line, after)
    except CronSimError:
        return None


def in_words(line: str) -> str:
    """Return a cron line in words, or as it is if that is not possible."""
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError:
        return line
    try:
        return CronSim(line, time_of(0)).explain()
    except CronSimError:
        return line


def has_cron() -> bool:
    """Return whether cronsim is installed."""
    return importlib.util.find_spec("cronsim") is not None


def _walls(line: str, after: datetime) -> Iterator[datetime]:
    moments = _simulated(line, after)
    if moments is None:
        raise InvalidOption("cron", f"{line!r} is not a cron line")
    return moments


# zones


def _zone_name(tz: object) -> str:
    name = tz.key if isinstance(tz, zoneinfo.ZoneInfo) else tz
    if not isinstance(name, str):
        raise InvalidOption("tz", f"must be the name of a time zone such as 'Europe/Berlin', got {tz!r}")
    _zone(name)
    return name


def _zone(name: str) -> zoneinfo.ZoneInfo:
    if name == "localtime":
        raise InvalidOption("tz", "'localtime' differs between hosts; use a name such as 'Europe/Berlin'")
    try:
        return zoneinfo.ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        known = zoneinfo.available_timezones()
        if not known:
            raise InvalidOption("tz", "this system has no time zones: pip install tzdata") from None
        hint = did_you_mean(name, known) or "; use a name such as 'Europe/Berlin' or 'UTC'"
        raise InvalidOption("tz", f"unknown time zone {name!r}{hint}") from None


def _is_fixed(line: str) -> bool:
    minute, hour = line.split()[:2]
    return not (minute.startswith("*") or hour.startswith("*"))


def _next_fixed(line: str, zone: zoneinfo.ZoneInfo, after: datetime) -> datetime | None:
    """Return the next tick of a line at fixed times: a skipped time ticks after the change, a repeated one once."""
    for wall in _walls(line, _wall(after, zone)):
        while (moment := _moment(wall, zone)) is None:
            wall += _MINUTE
        if moment > after:
            return moment
    return None


def _next_wild(line: str, zone: zoneinfo.ZoneInfo, after: datetime) -> datetime | None:
    """Return the next tick of a line with `*`, which follows local time as it is shown."""
    here = _wall(after, zone)
    # if the clock is set back soon, the same local times come again
    back = max(timedelta(0), here + _BACK_AT_MOST - _wall(after + _BACK_AT_MOST, zone))
    best: datetime | None = None
    for wall in _walls(line, here - back):
        first = _moment(wall, zone)
        if best is not None and first is not None and first > best:
            break
        for moment in (first, _moment(wall, zone, fold=1)):
            if moment is not None and moment > after and (best is None or moment < best):
                best = moment
        if best is not None and not back:
            break
    return best


def _wall(moment: datetime, zone: zoneinfo.ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _moment(wall: datetime, zone: zoneinfo.ZoneInfo, fold: int = 0) -> datetime | None:
    """Return the time at which the clock shows this local time, or None if it is skipped."""
    moment = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    return moment if _wall(moment, zone) == wall else None


def _period_ms(every: object) -> int:
    return round(seconds_of("every", every, SHORTEST_PERIOD_SECONDS) * 1000)  # type: ignore[arg-type]
