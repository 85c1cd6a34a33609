from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from rowcall.overview.formats import ago, counted, in_one_unit, moment, share, size

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_moment_is_shown_in_utc() -> None:
    assert moment(NOON.astimezone(timezone(timedelta(hours=5)))) == "2026-01-01 12:00:00.000"
    assert moment(None) == ""


def test_the_past_and_the_future() -> None:
    assert ago(NOON - timedelta(seconds=40), NOON) == "40 s ago"
    assert ago(NOON + timedelta(seconds=40), NOON) == "in 40 s"
    assert ago(NOON - timedelta(seconds=90), NOON) == "1 min 30 s ago"
    assert ago(None, NOON) == "-"


def test_rates_in_the_unit_that_shows_the_highest() -> None:
    assert in_one_unit(1, 0.001) == (["1.0", "<0.01"], "per second")
    assert in_one_unit(0.999, 0) == (["59.9", "0"], "per minute")
    assert in_one_unit(1 / 60) == (["1.0"], "per minute")
    assert in_one_unit(1 / 61, 1 / 86_400) == (["59.0", "0.04"], "per hour")


def test_sizes_counts_and_shares_at_their_limits() -> None:
    assert (size(1023), size(1024)) == ("1023 bytes", "1.0 KB")
    assert size(5 * 1024**5) == "5,120.0 TB"
    assert counted(0, "job") == "0 jobs"
    assert (share(0, 9), share(9, 9), share(1, 0)) == ("0 %", "100 %", "-")
