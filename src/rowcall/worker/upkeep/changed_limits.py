"""Releases jobs that wait in the buffer when their limit was changed or is held: they were claimed before that."""

from __future__ import annotations

from collections.abc import Set

from rowcall.queue import Queue
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.control import LIMIT_CHANGED
from rowcall.worker.lanes.dispatcher import Dispatcher


class ChangedLimits:
    """`CancelRequests` notes the changes that are stored. Each of them is handled once."""

    def __init__(self, queue: Queue, dispatcher: Dispatcher) -> None:
        self._declared = queue.declared.limits.declared
        self._dispatcher = dispatcher
        self._known: Set[str] = frozenset()

    def note(self, changes: Set[str]) -> None:
        """Release the jobs in the buffer that are under a limit with a new change, or under a key that is held now."""
        names = {one.removeprefix(LIMIT_CHANGED).partition(":")[2] for one in changes - self._known}
        self._known = changes
        if not names:
            return
        for attempt in self._dispatcher.held():
            if not (attempt.started_at or attempt.settled) and self._is_under(attempt.ready, names):
                self._dispatcher.release_unstarted(attempt)

    def _is_under(self, ready: Ready, names: Set[str]) -> bool:
        return any(limit.name in names or limit.key in names for limit in self._declared.of(ready))
