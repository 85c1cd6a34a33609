"""When schedules tick: cron lines in time zones, fixed periods, and what becomes of ticks that were missed.

Lines are read as Debian's cron reads them, by cronsim. So are changes of the clocks: a line whose minute or hour begins
with `*` goes by the clock on the wall, whatever it shows; one at fixed times runs once even so, at the end of the hour
that is skipped, and in the first of the hours that come twice.
"""

from __future__ import annotations

import difflib
import importlib.util
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, get_args

import msgspec

from rowcall.base.times import milliseconds_of, time_of
from rowcall.domain.errors import InvalidOption, seconds_of

CatchUp = Literal["skip", "one", "all"]

DEFAULT_ZONE = "UTC"
DEFAULT_CATCH_UP: CatchUp = "one"
SHORTEST_PERIOD_SECONDS = 0.1
TIMELY_MS = 60_000  # later than that, a tick was missed
HOUR_MS = 3_600_000
LONGEST_LINE = 500
_BACK_AT_MOST = timedelta(hours=3)
_MINUTE = timedelta(minutes=1)
_SOME_DAY = datetime(2000, 1, 1)
_ALL = ("*",) * 5


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
    """When a schedule ticks: by a cron line in a zone, or every so many milliseconds, counted from 1970 on."""

    cron: str | None = None
    every_ms: int | None = None
    zone: str = DEFAULT_ZONE
    catch_up: str = DEFAULT_CATCH_UP


class Due(NamedTuple):
    """The ticks to enqueue now, and the one that follows what is over."""

    ticks: list[int]
    following_ms: int | None


def timing_of(cron: object, every: object, tz: object, catch_up: object) -> Timing:
    """What was asked for, or `InvalidOption` with the place of the fault.

    >>> timing_of("0 9 * * mon-fri", None, "Europe/Berlin", "one").zone
    'Europe/Berlin'
    >>> timing_of("0 25 * * *", None, None, "one")
    Traceback (most recent call last):
    rowcall.InvalidOption: cron: '0 25 * * *': the hour, field 2 of 5, cannot be '25'; it takes 0-23, \
and as everywhere *, lists as 1,2, ranges as 1-5, steps as */5 (of 24 at most)
    """
    if catch_up not in get_args(CatchUp):
        raise InvalidOption("catch_up", f'wants "skip", "one" or "all", not {catch_up!r}')
    if (cron is None) == (every is None):
        raise InvalidOption("cron", "give a cron line or every=…, and one of them only")
    if every is not None:
        if tz is not None:
            raise InvalidOption("tz", "goes with a cron line; every=… is the same in every zone")
        return Timing(every_ms=_period_ms(every), catch_up=str(catch_up))
    zone = DEFAULT_ZONE if tz is None else _zone_name(tz)
    return Timing(cron=_checked_line(cron), zone=zone, catch_up=str(catch_up))


def check_timing(timing: Timing) -> None:
    """Refuse what plain SQL may have made of it, with the place of the fault."""
    if timing.catch_up not in get_args(CatchUp):
        raise InvalidOption("catch_up", f'wants "skip", "one" or "all", not {timing.catch_up!r}')
    if timing.every_ms is None:
        _checked_line(timing.cron)
        _zone(timing.zone)
    elif timing.every_ms < 1:
        raise InvalidOption("every", f"wants a period of 1 ms at least, not {timing.every_ms}")


def next_tick(timing: Timing, after_ms: int) -> int | None:
    """The first tick after a moment; None if there is none within 50 years."""
    if timing.every_ms is not None:
        return (after_ms // timing.every_ms + 1) * timing.every_ms
    if timing.cron is None:
        raise InvalidOption("cron", "there is neither a line nor a period")
    after = time_of(after_ms)
    zone = _zone(timing.zone)
    found = _next_fixed(timing.cron, zone, after) if _is_fixed(timing.cron) else _next_wild(timing.cron, zone, after)
    return None if found is None else milliseconds_of(found)


def due_ticks(timing: Timing, next_ms: int, now_ms: int, most: int) -> Due:
    """What is due of a schedule whose next tick is `next_ms`: at most so many of those that it is to catch up on."""
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
    """The last tick up to now, from the first one on: searched for in ever longer stretches of the past."""
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
        raise InvalidOption("cron", f"wants a text such as '0 9 * * *', not {type(line).__name__}")
    fields = line.split()
    if len(line) > LONGEST_LINE:
        raise InvalidOption("cron", f"wants a line of {LONGEST_LINE} characters at most, not {len(line)}")
    if len(fields) != len(_FIELDS):
        wanted = ", ".join(field.name for field in _FIELDS)
        more = "; there is no field of seconds: for less than a minute there is every=…" if len(fields) == 6 else ""
        raise InvalidOption("cron", f"{line!r} has {len(fields)} fields, and wants 5: {wanted}{more}")
    for place, text in enumerate(fields):
        for term in text.split(","):
            if not _is_well_formed(term, place):
                raise InvalidOption("cron", f"{line!r}: {_fault(place, term, text)}")
    line = " ".join(fields)
    walls = _simulated(line, _SOME_DAY)
    if walls is None or next(walls, None) is None:
        _, _, day, month, weekday = fields
        raise InvalidOption("cron", f"{line!r} never comes: no day of month {month} is day {day} and weekday {weekday}")
    return line


def _is_well_formed(term: str, place: int) -> bool:
    if _simulated(" ".join((*_ALL[:place], term, *_ALL[place + 1 :])), _SOME_DAY) is None:
        return False
    _, _, step = term.partition("/")
    return not step or int(step) <= _FIELDS[place].values


def _fault(place: int, term: str, text: str) -> str:
    field = _FIELDS[place]
    where = "" if term == text else f" in {text!r}"
    return (
        f"the {field.name}, field {place + 1} of 5, cannot be {term!r}{where}; it takes {field.allowed},"
        f" and as everywhere *, lists as 1,2, ranges as 1-5, steps as */5 (of {field.values} at most)"
    )


def _simulated(line: str, after: datetime) -> Iterator[datetime] | None:
    """What the clock on the wall shows at each tick after `after`, were it never set; None for a line that is none."""
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError:
        raise InvalidOption("cron", "needs cronsim: pip install 'rowcall[cron]'") from None
    try:
        return CronSim(line, after)
    except CronSimError:
        return None


def has_cron() -> bool:
    """Whether lines can be read here."""
    return importlib.util.find_spec("cronsim") is not None


def _walls(line: str, after: datetime) -> Iterator[datetime]:
    found = _simulated(line, after)
    if found is None:
        raise InvalidOption("cron", f"{line!r} is no cron line")
    return found


# zones


def _zone_name(tz: object) -> str:
    name = tz.key if isinstance(tz, zoneinfo.ZoneInfo) else tz
    if not isinstance(name, str):
        raise InvalidOption("tz", f"wants the name of a time zone such as 'Europe/Berlin', not {tz!r}")
    _zone(name)
    return name


def _zone(name: str) -> zoneinfo.ZoneInfo:
    if name == "localtime":
        raise InvalidOption("tz", "'localtime' is another zone on each host: name one, such as 'Europe/Berlin'")
    try:
        return zoneinfo.ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        known = zoneinfo.available_timezones()
        if not known:
            raise InvalidOption("tz", "this system has no time zones: pip install tzdata") from None
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ", such as 'Europe/Berlin' or 'UTC'"
        raise InvalidOption("tz", f"{name!r} is no time zone that is known here{hint}") from None


def _is_fixed(line: str) -> bool:
    minute, hour = line.split()[:2]
    return not (minute.startswith("*") or hour.startswith("*"))


def _next_fixed(line: str, zone: zoneinfo.ZoneInfo, after: datetime) -> datetime | None:
    """Once each: what is skipped comes when the clock has been set, what comes twice the first time only."""
    for wall in _walls(line, _wall(after, zone)):
        while (moment := _moment(wall, zone)) is None:
            wall += _MINUTE
        if moment > after:
            return moment
    return None


def _next_wild(line: str, zone: zoneinfo.ZoneInfo, after: datetime) -> datetime | None:
    """Whenever the clock on the wall shows it."""
    here = _wall(after, zone)
    # soon the clock will be set back, and show again what it has shown
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
    """When the clock on the wall shows that; None if it never does."""
    moment = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    return moment if _wall(moment, zone) == wall else None


def _period_ms(every: object) -> int:
    seconds = seconds_of("every", every)  # type: ignore[arg-type]
    if seconds < SHORTEST_PERIOD_SECONDS:
        raise InvalidOption("every", f"wants {SHORTEST_PERIOD_SECONDS} seconds at least, not {every!r}")
    return round(seconds * 1000)
