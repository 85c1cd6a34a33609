"""Many numbers to few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple


class Spread(NamedTuple):
    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` per cent of all do not exceed.

    >>> percentile([4, 1, 3, 2], 50), percentile([4, 1, 3, 2], 99)
    (2, 4)
    """
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[max(0, rank - 1)]
