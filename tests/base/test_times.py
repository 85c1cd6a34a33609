from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowcall.base.times import EPOCH, milliseconds_of, time_of, time_or_none


@given(st.integers(min_value=0, max_value=253_402_300_799_998))
def test_milliseconds_come_back(at_ms: int) -> None:
    assert milliseconds_of(time_of(at_ms)) == at_ms


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_a_time_comes_back_to_the_millisecond_below(at: datetime) -> None:
    assert timedelta(0) <= at - time_of(milliseconds_of(at)) < timedelta(milliseconds=1)


def test_times_are_in_utc_whatever_zone_they_were_given_in() -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    again = time_of(milliseconds_of(noon))
    assert again == noon
    assert again.tzinfo is UTC


@pytest.mark.parametrize("at_ms", [253_402_300_799_999, 2**62, 2**63 - 1])
def test_a_time_after_9999_is_shown_as_its_end(at_ms: int) -> None:
    assert time_of(at_ms) == datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)


@pytest.mark.parametrize("at_ms", [-1, -(2**62), -(2**63)])
def test_a_time_before_1970_is_shown_as_its_beginning(at_ms: int) -> None:
    assert time_of(at_ms) == EPOCH


def test_none_stays_none() -> None:
    assert time_or_none(None) is None
    assert time_or_none(0) == datetime(1970, 1, 1, tzinfo=UTC)
