"""Histograms of durations: buckets of 1 ms below 16 ms, then eight per doubling, so a percentile is within 6 %.

A histogram is a dict of bucket numbers to counts. Histograms are merged by addition.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Annotated

import msgspec

from rowcall.base.text import decoded

Histogram = dict[int, int]

LONGEST_MS = 2**50
MOST_COUNTED = 2**53


def bucket_of(milliseconds: int) -> int:
    """
    >>> [bucket_of(ms) for ms in (0, 15, 16, 17, 18, 1000)]
    [0, 15, 16, 16, 17, 63]
    """
    if milliseconds < 16:
        return milliseconds if milliseconds > 0 else 0
    octave = min(milliseconds, LONGEST_MS).bit_length() - 4
    return 8 * octave + (milliseconds >> octave)


_Bucket = Annotated[int, msgspec.Meta(ge=0, le=bucket_of(LONGEST_MS))]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_COUNTED)]
_decoder = msgspec.json.Decoder(dict[_Bucket, _Count])


def bounds_of(bucket: int) -> tuple[int, int]:
    """Return the shortest duration of a bucket and of the next one, in milliseconds.

    >>> bounds_of(15), bounds_of(63)
    ((15, 16), (960, 1024))
    """
    if bucket < 16:
        return bucket, bucket + 1
    octave = bucket // 8 - 1
    first = (bucket - 8 * octave) << octave
    return first, first + (1 << octave)


def merge(into: MutableMapping[int, int], more: Mapping[int, int]) -> None:
    for bucket, count in more.items():
        into[bucket] = into.get(bucket, 0) + count


def percentile_ms(histogram: Mapping[int, int], share: float) -> float | None:
    """Return the duration that this share of all stays within, or None if nothing was counted.

    >>> percentile_ms({0: 98, 63: 2}, 0.5), percentile_ms({0: 98, 63: 2}, 0.99)
    (0.0, 991.5)
    """
    wanted = share * sum(histogram.values())
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= wanted and seen > 0:
            first, after = bounds_of(bucket)
            return (first + after - 1) / 2
    return None


def from_json(text: str | None) -> Histogram:
    """Return the histogram in a row, or an empty one if plain SQL wrote something else."""
    return decoded(_decoder, text, {}) if text else {}
