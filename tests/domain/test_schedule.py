from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from rowcall import InvalidOption
from rowcall.base.times import milliseconds_of, time_of
from rowcall.domain.schedule import TIMELY_MS, Due, Timing, due_ticks, has_cron, next_tick, timing_of

NOON = milliseconds_of(datetime(2030, 1, 1, 12, tzinfo=UTC))
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
HOURLY = Timing(cron="0 * * * *")


def upcoming(timing: Timing, after: datetime, count: int) -> list[datetime]:
    found, at_ms = [], milliseconds_of(after)
    for _ in range(count):
        following = next_tick(timing, at_ms)
        assert following is not None
        assert following > at_ms
        at_ms = following
        found.append(time_of(at_ms))
    return found


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Asia/Kathmandu", "UTC"])
@pytest.mark.parametrize("day", [(3, 9), (3, 30), (10, 26), (11, 2)], ids=str)
def test_ticks_equal_those_of_cronsim_where_clocks_change_by_an_hour(zone: str, day: tuple[int, int]) -> None:
    after = datetime(2030, *day, tzinfo=UTC)
    for line in ("*/10 * * * *", "30 2 * * *", "15 1,2,3 * * *", "0 */2 * * *", "0,59 0-4 * * 0", "* 2 * * *"):
        walls = CronSim(line, after.astimezone(ZoneInfo(zone)))
        wanted = [at for at in (next(walls).astimezone(UTC) for _ in range(200)) if at < after + timedelta(days=3)]
        assert upcoming(Timing(cron=line, zone=zone), after, len(wanted)) == wanted


def test_a_time_in_a_repeated_hour_is_followed_by_the_rest_of_it() -> None:
    second_half_past_one = datetime(2030, 11, 3, 6, 30, tzinfo=UTC)
    fixed = Timing(cron="15,45 1 * * *", zone="America/New_York")
    assert upcoming(fixed, second_half_past_one, 1) == [datetime(2030, 11, 4, 6, 15, tzinfo=UTC)]
    wild = Timing(cron="*/15 1 * * *", zone="America/New_York")
    assert upcoming(wild, second_half_past_one, 1) == [datetime(2030, 11, 3, 6, 45, tzinfo=UTC)]


def test_a_period_is_counted_from_1970_on() -> None:
    five = Timing(every_ms=5 * MINUTE)
    assert next_tick(five, NOON - 1) == NOON
    assert next_tick(five, NOON) == next_tick(five, NOON + MINUTE) == NOON + 5 * MINUTE
    assert timing_of(None, 0.25, None, "one").every_ms == 250
    assert timing_of(None, timedelta(days=7), None, "one").every_ms == 7 * DAY


@pytest.mark.parametrize("timing", [HOURLY, Timing(every_ms=HOUR)], ids=["line", "period"])
class TestCatchUp:
    def due(self, timing: Timing, catch_up: str, now_ms: int, most: int = 100) -> Due:
        changed = Timing(cron=timing.cron, every_ms=timing.every_ms, catch_up=catch_up)
        return due_ticks(changed, NOON, now_ms, most)

    @pytest.mark.parametrize("catch_up", ["skip", "one", "all"])
    def test_in_time(self, timing: Timing, catch_up: str) -> None:
        assert self.due(timing, catch_up, NOON) == ([NOON], NOON + HOUR)
        assert self.due(timing, catch_up, NOON + TIMELY_MS) == ([NOON], NOON + HOUR)

    def test_skip(self, timing: Timing) -> None:
        assert self.due(timing, "skip", NOON + TIMELY_MS + 1) == ([], NOON + HOUR)
        assert self.due(timing, "skip", NOON + 3 * HOUR) == ([NOON + 3 * HOUR], NOON + 4 * HOUR)
        assert self.due(timing, "skip", NOON + 400 * DAY + 30 * MINUTE) == ([], NOON + 400 * DAY + HOUR)

    def test_one(self, timing: Timing) -> None:
        assert self.due(timing, "one", NOON + HOUR - 1) == ([NOON], NOON + HOUR)
        assert self.due(timing, "one", NOON + 400 * DAY + 30 * MINUTE) == (
            [NOON + 400 * DAY],
            NOON + 400 * DAY + HOUR,
        )

    def test_all(self, timing: Timing) -> None:
        wanted = [NOON + number * HOUR for number in range(49)]
        assert self.due(timing, "all", NOON + 2 * DAY + 30 * MINUTE) == (wanted, NOON + 2 * DAY + HOUR)
        assert self.due(timing, "all", NOON + 2 * DAY, most=10) == (wanted[:10], wanted[10])


def test_skip_leaves_out_only_late_ticks() -> None:
    seconds = Timing(every_ms=1000, catch_up="skip")
    assert due_ticks(seconds, NOON, NOON + 2500, 100) == ([NOON, NOON + 1000, NOON + 2000], NOON + 3000)
    late = due_ticks(seconds, NOON, NOON + 5 * MINUTE, 100)
    assert late.ticks == [NOON + 4 * MINUTE + number * 1000 for number in range(61)]
    assert late.following_ms == NOON + 5 * MINUTE + 1000
    assert due_ticks(seconds, NOON, NOON + 5 * MINUTE, 2) == (late.ticks[:2], late.ticks[2])


def test_steps_as_long_as_their_field() -> None:
    for line in ("*/60 * * * *", "0 */24 * * *", "0 0 */31 * *", "0 0 1 */12 *", "0 0 * * */7"):
        assert timing_of(line, None, None, "one").cron == line


def test_the_last_of_a_line_that_seldom_comes() -> None:
    leap = Timing(cron="0 0 29 2 *")
    first = milliseconds_of(datetime(2032, 2, 29, tzinfo=UTC))
    now = milliseconds_of(datetime(2041, 1, 1, tzinfo=UTC))
    assert due_ticks(leap, first, now, 1).ticks == [milliseconds_of(datetime(2040, 2, 29, tzinfo=UTC))]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("61 * * * *", r"'61 \* \* \* \*': field 1 \(minute\) cannot be '61'; allowed: 0-59"),
        ("0 9,25 * * *", r"field 2 \(hour\) cannot be '25' in '9,25'; allowed: 0-23"),
        ("0 0 32 * *", r"field 3 \(day of the month\) cannot be '32'; allowed: 1-31, L"),
        ("0 0 0 * *", r"field 3 \(day of the month\) cannot be '0'"),
        ("0 0 * 13 *", r"field 4 \(month\) cannot be '13'; allowed: 1-12, JAN-DEC"),
        ("0 0 * * 8", r"field 5 \(day of the week\) cannot be '8'; allowed: 0-7"),
        ("0 0 * * fry", r"field 5 \(day of the week\) cannot be 'fry'"),
        ("0 0 * * mon#6", r"field 5 \(day of the week\) cannot be 'mon#6'"),
        ("5-1 * * * *", r"field 1 \(minute\) cannot be '5-1'"),
        ("*/100 * * * *", r"field 1 \(minute\) cannot be '\*/100'; .* steps such as \*/5 \(at most 60\)"),
        ("0 0 1,2-5/32 * *", r"field 3 \(day of the month\) cannot be '2-5/32'"),
        ("*/0 * * * *", r"field 1 \(minute\) cannot be '\*/0'"),
        ("1,,2 * * * *", r"field 1 \(minute\) cannot be '' in '1,,2'"),
        ("-1 * * * *", r"field 1 \(minute\) cannot be '-1'"),
        ("١ * * * *", r"field 1 \(minute\)"),
        ("0 * * * * *", "must have 5 fields \\(minute, hour, .*got 6; for periods below a minute"),
        ("0 9 * *", "must have 5 fields .*, got 4"),
        ("", "must have 5 fields .*, got 0"),
        ("@dayly", r"unknown name '@dayly' \(did you mean '@daily'\?\)"),
        ("@reboot", "unknown name '@reboot'; known: @yearly, "),
        ("0 0 30 2 *", r"never ticks: month 2 has no day 30 with weekday \*"),
        ("* * */20 * 1L", "never ticks"),
        ("1," * 300 + "1 * * * *", "must have at most 500 characters"),
        (9, "must be a string such as '0 9 .*', got 9"),
    ],
)
def test_a_malformed_line_is_refused_with_the_wrong_field(line: object, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem) as raised:
        timing_of(line, None, None, "one")
    assert raised.value.option == "cron"


def test_names_stand_for_cron_lines() -> None:
    names = {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        " @Daily ": "0 0 * * *",
    }
    assert {name: timing_of(name, None, None, "one").cron for name in names} == names


@pytest.mark.parametrize(
    ("zone", "problem"),
    [
        ("Europe/Belin", r"unknown time zone 'Europe/Belin' \(did you mean 'Europe/Berlin'\?\)"),
        ("Mars/Olympus_Mons", "unknown time zone 'Mars/Olympus_Mons'"),
        ("America", "unknown time zone"),
        ("../../etc/passwd", "unknown time zone"),
        ("/etc/localtime", "unknown time zone"),
        ("localtime", "differs between hosts"),
        ("", "unknown time zone"),
        ("\0", "unknown time zone"),
        ("\ud800", "unknown time zone"),
        (UTC, "must be the name of a time zone"),
        (2, "must be the name of a time zone"),
    ],
)
def test_an_unknown_zone_is_refused(zone: object, problem: str) -> None:
    with pytest.raises(InvalidOption, match=problem) as raised:
        timing_of("0 9 * * *", None, zone, "one")
    assert raised.value.option == "tz"


def test_a_zone_may_be_given_as_one() -> None:
    assert timing_of("0 9 * * *", None, ZoneInfo("Europe/Berlin"), "one").zone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("given", "option", "problem"),
    [
        ((None, None, None, "one"), "cron", "pass either a cron line or every=…"),
        (("0 9 * * *", 60, None, "one"), "cron", "either a cron line or every"),
        ((None, 60, "UTC", "one"), "tz", "does not depend on a time zone"),
        ((None, 0, None, "one"), "every", "must be a duration from 0.1 s"),
        ((None, -5, None, "one"), "every", "must be a duration"),
        ((None, "5", None, "one"), "every", "must be seconds or a timedelta"),
        ((None, float("nan"), None, "one"), "every", "must be a duration"),
        (("0 9 * * *", None, None, "two"), "catch_up", "must be skip, one or all, got 'two'"),
        (("0 9 * * *", None, None, None), "catch_up", "must be"),
        (("0 9 * * *", None, None, ["one"]), "catch_up", "must be"),
    ],
)
def test_other_wrong_timings_are_refused(
    given: tuple[object, object, object, object], option: str, problem: str
) -> None:
    with pytest.raises(InvalidOption, match=problem) as raised:
        timing_of(*given)
    assert raised.value.option == option


def test_without_cronsim_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_cron()
    monkeypatch.setitem(sys.modules, "cronsim", None)
    assert not has_cron()
    with pytest.raises(InvalidOption, match=r"needs cronsim: pip install 'rowcall\[cron\]'"):
        timing_of("0 9 * * *", None, None, "one")
    assert timing_of(None, 60, None, "one").every_ms == 60_000
