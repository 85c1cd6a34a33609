"""How many jobs the loop may claim now: free slots, and room in the buffer."""

from __future__ import annotations

from rowcall.base.clock import Clock
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pace import (
    AHEAD_SECONDS,
    LEAST_REACH,
    MOST_BUFFERED,
    MOST_BYTES_AHEAD,
    RATE_MEMORY,
    SIZE_MEMORY,
    STALE_SECONDS,
)


class Throughput:
    """
    >>> throughput = Throughput()
    >>> throughput.buffer_size
    0
    >>> for _ in range(50): throughput.observe(finished=500, busy_seconds=0.01)
    >>> throughput.buffer_size
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
            weight = max(RATE_MEMORY, min(1.0, busy_seconds / AHEAD_SECONDS))
            self._per_second += weight * (rate - self._per_second)

    def observe_payloads(self, sizes: list[int]) -> None:
        if sizes:
            self._bytes_each += SIZE_MEMORY * (sum(sizes) / len(sizes) - self._bytes_each)

    @property
    def buffer_size(self) -> int:
        size = min(MOST_BUFFERED, int(self._per_second * AHEAD_SECONDS))
        return min(size, int(MOST_BYTES_AHEAD / self._bytes_each)) if self._bytes_each > 0 else size


class Slots:
    """Free slots, and room in the buffer for jobs that are claimed ahead of need."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock, *, most_last_ahead: int | None) -> None:
        self._dispatcher = dispatcher
        self._most_last_ahead = most_last_ahead
        self._timer = clock.timer
        self._throughput = Throughput()
        self._reach = MOST_BUFFERED
        self._busy_since: float | None = None
        self._moved_at = 0.0
        self._slot_needed = False

    def stop_claiming(self) -> None:
        """Called by any thread: from now on there is no room, and nothing starts."""
        self._dispatcher.stopping = True

    @property
    def stopping(self) -> bool:
        return self._dispatcher.stopping

    @property
    def slot_needed(self) -> bool:
        """Whether a job that must not be buffered waits for a free slot: nothing else is claimed before it."""
        return self._slot_needed

    def free(self) -> tuple[int, int]:
        """Return the number of free slots, and the room in the buffer."""
        if self.stopping:
            return 0, 0
        slots = self._dispatcher.free_slots
        if self._slot_needed and slots <= 0:
            return 0, 0
        if self.lost_ahead <= 0 or self.last_ahead == 0:
            return slots, 0
        return slots, max(0, min(self._reach, self._throughput.buffer_size - self._dispatcher.buffered))

    def batch_room(self) -> dict[str, int]:
        """Return how many more jobs fit into the open batches."""
        return {} if self.stopping else self._dispatcher.batch_room()

    @property
    def lost_ahead(self) -> int:
        """How many more jobs that were lost before may wait in the buffer."""
        return self._dispatcher.concurrency - sum(one.ready.lost > 0 for one in self._dispatcher.charged)

    @property
    def last_ahead(self) -> int | None:
        """How many more last attempts may wait in the buffer; None for any number."""
        if self._most_last_ahead is None:
            return None
        return max(0, self._most_last_ahead - sum(one.ready.lost == 0 for one in self._dispatcher.charged))

    @property
    def enough_buffered(self) -> int:
        return self._throughput.buffer_size // 2

    def is_stale(self, *, any_ended: bool) -> bool:
        """Return whether buffered jobs wait behind something slow: other workers may have slots for them."""
        if any_ended or not self._dispatcher.buffered:
            self._moved_at = self._timer()
            return False
        stale = self._timer() - self._moved_at > STALE_SECONDS
        if stale:  # otherwise the next round would claim again what is released now
            self._throughput.observe(finished=0, busy_seconds=STALE_SECONDS)
        return stale

    def note_finished(self, attempts: int) -> None:
        if self._busy_since is not None:
            now = self._timer()
            self._throughput.observe(finished=attempts, busy_seconds=now - self._busy_since)
            self._busy_since = now if self._dispatcher.used_slots else None  # not while a portion waits

    def note_round(self, demand: Demand, result: RoundResult) -> None:
        if demand.room > 0:
            self._slot_needed = result.slot_needed
            # where the buffer ends early, do not read far beyond its end
            near = max(LEAST_REACH, 2 * len(result.buffered))
            self._reach = near if result.is_cut else min(MOST_BUFFERED, 2 * self._reach)
        if result.started or result.buffered or result.joining:
            self._throughput.observe_payloads([len(ready.payload) for ready in (*result.started, *result.buffered)])
            if self._busy_since is None:
                self._busy_since = self._timer()
