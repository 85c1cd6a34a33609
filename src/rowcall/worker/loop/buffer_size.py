"""How much to hold in the buffer: what this worker can start within 50 ms, by what it did lately."""

from __future__ import annotations

AHEAD_SECONDS = 0.05
MOST_BUFFERED = 1000
MOST_BYTES_AHEAD = 8 * 1024 * 1024
_MEMORY = 0.3


class Pace:
    """
    >>> pace = Pace()
    >>> pace.buffer_size
    0
    >>> for _ in range(50): pace.observe(finished=500, busy_seconds=0.01)
    >>> pace.buffer_size
    1000
    """

    def __init__(self) -> None:
        self._per_second = 0.0
        self._bytes_each = 0.0

    def observe(self, *, finished: int, busy_seconds: float) -> None:
        """`finished` jobs in a time during which some were always running."""
        if busy_seconds > 0:
            rate = finished / busy_seconds
            # a long time says more than a short one: after 50 ms the past hardly counts
            weight = max(_MEMORY, min(1.0, busy_seconds / AHEAD_SECONDS))
            self._per_second += weight * (rate - self._per_second)

    def observe_payloads(self, sizes: list[int]) -> None:
        if sizes:
            self._bytes_each += 0.5 * (sum(sizes) / len(sizes) - self._bytes_each)

    @property
    def buffer_size(self) -> int:
        size = min(MOST_BUFFERED, int(self._per_second * AHEAD_SECONDS))
        return min(size, int(MOST_BYTES_AHEAD / self._bytes_each)) if self._bytes_each > 0 else size
