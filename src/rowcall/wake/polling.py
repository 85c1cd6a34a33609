"""Waiting where nothing notifies: the thread looks again after pauses that grow while there is nothing to do."""

from __future__ import annotations

from rowcall.wake.waiter import Waker, Wakeup

FIRST_SECONDS, LAST_SECONDS, GROWTH = 0.005, 0.25, 1.5


class Poller:
    """Says `CHANGED` after each pause, as something may have been committed."""

    def __init__(self, waker: Waker) -> None:
        self._waker = waker
        self._pause_seconds = FIRST_SECONDS

    def mark_idle(self) -> None:
        """Do nothing: whatever is committed from now on is found after the next pause."""

    def mark_busy(self) -> None:
        self._pause_seconds = FIRST_SECONDS

    def note_wakeup(self, *, useful: bool) -> None:
        self._pause_seconds = FIRST_SECONDS if useful else min(self._pause_seconds * GROWTH, LAST_SECONDS)

    def full_pause_seconds(self, seconds: float) -> float:
        return seconds

    def pause(self, seconds: float) -> None:
        self._waker.wait(seconds)

    def wait(self, seconds: float) -> Wakeup:
        if self._waker.wait(min(seconds, self._pause_seconds)):
            return Wakeup.WOKEN
        return Wakeup.CHANGED if self._pause_seconds < seconds else Wakeup.TIMEOUT

    def close(self) -> None:
        """Do nothing: the waker belongs to the caller."""
