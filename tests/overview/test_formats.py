from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rowcall.base.text import span
from rowcall.overview.formats import ago, counted, duration, moment, period, rate, share, size

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_moment_is_shown_in_utc() -> None:
    assert moment(NOON.astimezone(timezone(timedelta(hours=5)))) == "2026-01-01 12:00:00.000"
    assert moment(None) == ""


def test_the_past_and_the_future() -> None:
    assert ago(NOON - timedelta(seconds=40), NOON) == "40 s ago"
    assert ago(NOON + timedelta(seconds=40), NOON) == "in 40 s"
    assert ago(None, NOON) == "-"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0004, "<1 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1m 00s")],
)
def test_a_duration_never_shows_sixty_of_a_unit(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_a_period_that_no_unit_divides_is_a_duration() -> None:
    assert period(3601) == "1h 00m"


def test_a_rate_in_the_unit_that_shows_it() -> None:
    assert (rate(1), rate(0.999), rate(1 / 60), rate(1 / 61)) == (
        "1.0 per second",
        "59.9 per minute",
        "1.0 per minute",
        "59.0 per hour",
    )


def test_sizes_counts_and_shares_at_their_limits() -> None:
    assert (size(1023), size(1024)) == ("1023 bytes", "1.0 KB")
    assert size(5 * 1024**5) == "5,120.0 TB"
    assert counted(0, "job") == "0 jobs"
    assert (share(0, 9), share(9, 9), share(1, 0)) == ("0 %", "100 %", "-")


def test_times_in_one_unit() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert ago(now - timedelta(seconds=90), now) == "90 s ago"
    assert ago(now + timedelta(hours=5), now) == "in 5 h"
    assert [span(seconds) for seconds in (0, 0.5, 119, 120, 7200, 172_800, 86400 * 26710)] == [
        *("0 ms", "500 ms", "119 s", "2 min", "2 h", "2 d", "73 years")
    ]
