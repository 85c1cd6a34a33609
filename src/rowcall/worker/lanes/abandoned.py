"""Attempts that were settled although their handlers continue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rowcall.declare.declaration import Lane
from rowcall.worker.attempt import Attempt
from rowcall.worker.registrar import Identity


class Abandoned:
    """Their slots in the worker and under limits stay in use. Used within the dispatcher's lock, except for reads."""

    def __init__(self) -> None:
        self.identity = Identity("", None)
        self._running: set[Attempt] = set()
        self._dying: set[Attempt] = set()
        self._ended: deque[Attempt] = deque()

    def __len__(self) -> int:
        return len(self._running)

    def __bool__(self) -> bool:
        return bool(self._running or self._dying)

    @property
    def any_ended(self) -> bool:
        return bool(self._ended)

    def add(self, attempt: Attempt) -> None:
        self._running.add(attempt)

    def add_dying(self, attempt: Attempt) -> None:
        """Its process was asked to end, and frees its slot in the worker at once."""
        self._dying.add(attempt)

    def end(self, attempt: Attempt) -> None:
        """Its handler has ended."""
        self._running.discard(attempt)
        self._ended.append(attempt)

    def end_dying(self, attempt: Attempt) -> None:
        """Its process has ended."""
        self._dying.discard(attempt)
        self._ended.append(attempt)

    def fences(self, *, event_loop_closed: bool = False) -> set[tuple[int, int]]:
        """A closed event loop runs no handler any more, and never reports that one has ended."""
        left = self._running | self._dying
        if event_loop_closed:
            left = {attempt for attempt in left if attempt.task.lane is not Lane.LOOP}
        return set(self._fences(left))

    def pop_ended(self) -> list[tuple[int, int]]:
        """Return the attempts whose handlers have ended since the last call."""
        fences = []
        while self._ended:
            fences += self._fences([self._ended.popleft()])
        return fences

    def _fences(self, attempts: Iterable[Attempt]) -> list[tuple[int, int]]:
        """Leave out what was claimed under a former name: other jobs may have its ids."""
        members = (member for attempt in attempts for member in attempt.members or (attempt,))
        return [member.fence for member in members if member.claim.identity is self.identity]
