"""When a cron line ticks, found by looking at the clock on the wall at every minute: slow, and plain to see.

Nothing here is shared with the code that is tested. The rules are those of Debian's crontab(5): days match by both of
their fields if one begins with a star, else by either; a line whose minute or hour begins with a star goes by the
clock; one at fixed times is run at once when the clock has skipped its time, and not again when it shows it twice.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
QUARTERS = [timedelta(minutes=15) * number for number in range(-4, 101)]
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


def ticks(line: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """All ticks from the midnight `start` up to the midnight `end`, in UTC."""
    minute, hour, day, month, weekday = line.lower().split()
    by_the_clock = minute.startswith("*") or hour.startswith("*")
    times = [timedelta(hours=h, minutes=m) for h in _numbers(hour, 0, 23) for m in _numbers(minute, 0, 59)]

    def matches(wall: datetime) -> bool:
        on = wall.date()
        return is_day(on, day, month, weekday) and timedelta(hours=wall.hour, minutes=wall.minute) in times

    found = []
    for number in range((end - start) // DAY):
        begin = start + number * DAY
        offset = _offset_all_day(begin, zone)
        if offset is None:
            found += _minute_by_minute(begin, zone, matches, by_the_clock=by_the_clock)
            continue
        for midnight in (begin + offset).date(), (begin + offset + DAY).date():
            if is_day(midnight, day, month, weekday):
                walls = (datetime(midnight.year, midnight.month, midnight.day, tzinfo=UTC) + time for time in times)
                found += [wall - offset for wall in walls if begin <= wall - offset < begin + DAY]
    return sorted(found)


def _minute_by_minute(begin: datetime, zone: str, matches: object, *, by_the_clock: bool) -> list[datetime]:
    assert callable(matches)
    found = []
    before = _wall(begin - MINUTE, zone)
    for number in range(DAY // MINUTE):
        moment = begin + number * MINUTE
        wall = moment.astimezone(ZoneInfo(zone))
        now = wall.replace(tzinfo=None, fold=0)
        if by_the_clock:
            ticks_now = matches(now)
        else:
            skipped = [before + MINUTE * more for more in range(1, max(1, (now - before) // MINUTE))]
            ticks_now = (matches(now) and wall.fold == 0) or any(matches(wall) for wall in skipped)
        if ticks_now:
            found.append(moment)
        before = now
    return found


def _wall(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)


@cache
def _offset_all_day(begin: datetime, zone: str) -> timedelta | None:
    """How far the clock is off UTC, if it is not set on that day nor within an hour of it."""
    offsets = {(begin + quarter).astimezone(ZoneInfo(zone)).utcoffset() for quarter in QUARTERS}
    return offsets.pop() if len(offsets) == 1 else None


@cache
def is_day(on: date, day: str, month: str, weekday: str) -> bool:
    if on.month not in _numbers(month, 1, 12, _MONTHS, 1):
        return False
    by_date = any(_is_date(on, term) for term in day.split(","))
    by_weekday = any(_is_weekday(on, term) for term in weekday.split(","))
    if day.startswith("*") or weekday.startswith("*"):
        return by_date and by_weekday
    return by_date or by_weekday


def _is_date(on: date, term: str) -> bool:
    last = calendar.monthrange(on.year, on.month)[1]
    if term == "l":
        return on.day == last
    if term == "lw":
        return on.day == max(day for day in range(1, last + 1) if date(on.year, on.month, day).weekday() < 5)
    return on.day in _numbers(term, 1, 31)


def _is_weekday(on: date, term: str) -> bool:
    number = on.isoweekday() % 7
    if term.endswith("l"):
        return number == _number(term[:-1], _WEEKDAYS, 0) % 7 and (on + timedelta(days=7)).month != on.month
    if "#" in term:
        name, nth = term.split("#")
        return number == _number(name, _WEEKDAYS, 0) % 7 and (on.day - 1) // 7 + 1 == int(nth)
    return number in {found % 7 for found in _numbers(term, 0, 7, _WEEKDAYS, 0)}


def _numbers(field: str, lowest: int, highest: int, names: list[str] | None = None, first: int = 0) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            begin, end = lowest, highest
        elif "-" in span:
            begin, end = (_number(word, names, first) for word in span.split("-"))
        else:
            begin = _number(span, names, first)
            end = highest if step else begin
        found.update(range(begin, end + 1, int(step or 1)))
    return found


def _number(word: str, names: list[str] | None, first: int) -> int:
    return names.index(word) + first if names is not None and word in names else int(word)
