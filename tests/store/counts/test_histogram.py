from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from rowcall.store.counts.tallies import bounds_of, bucket_of, merge_histogram, percentile_ms
from rowcall.store.queries.counts import LAST_BUCKET, LONGEST_MS, Histogram, histogram_from_json

DURATIONS = st.integers(0, LONGEST_MS - 1)


def counted(durations: list[int]) -> Histogram:
    histogram: Histogram = {}
    for duration in durations:
        merge_histogram(histogram, {bucket_of(duration): 1})
    return histogram


@given(DURATIONS)
def test_a_duration_is_within_the_bounds_of_its_bucket(duration: int) -> None:
    first, after = bounds_of(bucket_of(duration))
    assert first <= duration < after
    assert after - first <= max(1, first / 8)


def test_buckets_follow_on_each_other_without_a_gap() -> None:
    for bucket in range(300):
        assert bounds_of(bucket)[1] == bounds_of(bucket + 1)[0]
        assert bucket_of(bounds_of(bucket)[0]) == bucket


def test_impossible_durations_count_as_the_nearest_possible() -> None:
    assert bucket_of(-5) == bucket_of(0) == 0
    assert bucket_of(LONGEST_MS) == bucket_of(2 * LONGEST_MS) == LAST_BUCKET
    first, after = bounds_of(LAST_BUCKET)
    assert first == LONGEST_MS < after


@given(st.lists(DURATIONS, min_size=1), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_six_percent_off_at_most(durations: list[int], share: float) -> None:
    found = percentile_ms(counted(durations), share)
    exact = sorted(durations)[max(0, math.ceil(share * len(durations) - 1e-9) - 1)]
    assert found is not None
    assert abs(found - exact) <= exact / 16


def test_an_empty_histogram_has_no_percentile() -> None:
    assert percentile_ms({}, 0.5) is None
    assert percentile_ms({3: 0}, 0.5) is None


@given(st.lists(DURATIONS), st.lists(DURATIONS))
def test_merged_is_as_if_counted_together(some: list[int], more: list[int]) -> None:
    together = counted(some)
    merge_histogram(together, counted(more))
    assert together == counted([*some, *more])


def test_read_back_from_json() -> None:
    assert histogram_from_json('{"0":2,"63":1}') == {0: 2, 63: 1}
    assert histogram_from_json(None) == histogram_from_json("") == histogram_from_json("{}") == {}
