"""Attempts that were settled although their handlers continue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rowcall.declare.declaration import Lane
from rowcall.worker.lanes.batch_calls import Call
from rowcall.worker.registrar import Identity


class Abandoned:
    """Their slots in the worker and under limits stay in use. Used within the dispatcher's lock, except for reads."""

    def __init__(self) -> None:
        self.identity = Identity("", None)
        self._running: set[Call] = set()
        self._dying: set[Call] = set()
        self._ended: deque[Call] = deque()

    def __len__(self) -> int:
        return len(self._running)

    def __bool__(self) -> bool:
        return bool(self._running or self._dying)

    @property
    def any_ended(self) -> bool:
        return bool(self._ended)

    def add(self, call: Call) -> None:
        self._running.add(call)

    def add_dying(self, call: Call) -> None:
        """Its process was asked to end, and frees its slot in the worker at once."""
        self._dying.add(call)

    def end(self, call: Call) -> None:
        """Its handler has ended."""
        self._running.discard(call)
        self._ended.append(call)

    def end_dying(self, call: Call) -> None:
        """Its process has ended."""
        self._dying.discard(call)
        self._ended.append(call)

    def fences(self, *, event_loop_closed: bool = False) -> set[tuple[int, int]]:
        """A closed event loop runs no handler any more, and never reports that one has ended."""
        left = self._running | self._dying
        if event_loop_closed:
            left = {call for call in left if call.task.lane is not Lane.LOOP}
        return set(self._fences(left))

    def pop_ended(self) -> list[tuple[int, int]]:
        """Return the attempts whose handlers have ended since the last call."""
        fences = []
        while self._ended:
            fences += self._fences([self._ended.popleft()])
        return fences

    def _fences(self, calls: Iterable[Call]) -> list[tuple[int, int]]:
        """Leave out what was claimed under a former name: other jobs may have its ids."""
        attempts = (attempt for call in calls for attempt in call.attempts)
        return [attempt.fence for attempt in attempts if attempt.common.identity is self.identity]
