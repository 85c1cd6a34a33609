"""Until when the jobs of this worker are surely its own, by its own clock."""

from __future__ import annotations

from collections.abc import Callable


class Lease:
    """Others declare a worker lost after they have seen no heartbeat of it for a whole lease."""

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self.ends_at = 0.0

    @property
    def may_be_over(self) -> bool:
        return self._monotonic() > self.ends_at

    def renew(self, sent_at: float) -> None:
        """The database has confirmed a heartbeat that was sent then: nobody saw it sooner."""
        self.ends_at = max(self.ends_at, sent_at + self._seconds)
