"""What a worker's loop waits with, and what can end its wait."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol


class Wakeup(Enum):
    WOKEN = auto()  # by another thread of this process
    NOTIFIED = auto()  # another process says that there is work
    CHANGED = auto()  # another connection has committed something
    NOTHING = auto()  # a notification without a commit, so far
    TIMEOUT = auto()


class Waiter(Protocol):
    """Used by the loop's thread alone."""

    def mark_idle(self) -> None:
        """Call before the last check for work: a commit from now on ends the wait."""

    def mark_busy(self) -> None:
        """Call after a round that found work."""

    def note_wakeup(self, *, useful: bool) -> None:
        """Say whether the last notification or commit brought work for this worker."""

    def full_pause_seconds(self, seconds: float) -> float:
        """Return how long to pause while there is no room for more jobs: at most `seconds`."""

    def pause(self, seconds: float) -> None:
        """Wait for the waker alone."""

    def wait(self, seconds: float) -> Wakeup: ...

    def close(self) -> None: ...
