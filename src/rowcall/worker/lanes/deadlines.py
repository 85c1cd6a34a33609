"""When attempts run out of time. The event loop watches its own attempts; the worker's loop watches the others."""

from __future__ import annotations

import heapq
import itertools
import threading

from rowcall.worker.lanes.batch_calls import Call
from rowcall.worker.pace import NEVER


class Deadlines:
    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[float, int, Call]] = []
        self._tie = itertools.count()
        self._lock = threading.Lock()

    def add(self, call: Call, at: float) -> bool:
        """Return whether it is the first one to expire."""
        with self._lock:
            if len(self._heap) > self._most:
                self._heap = [entry for entry in self._heap if not entry[2].settled]
                heapq.heapify(self._heap)
            entry = (at, next(self._tie), call)
            heapq.heappush(self._heap, entry)
            return self._heap[0] is entry

    def next_at(self) -> float:
        with self._lock:
            return self._heap[0][0] if self._heap else NEVER

    def pop_overdue(self, now: float) -> Call | None:
        with self._lock:
            return heapq.heappop(self._heap)[2] if self._heap and self._heap[0][0] <= now else None
