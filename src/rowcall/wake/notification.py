"""What ends a wait."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol


class News(Enum):
    RUNG = auto()  # this process has a word for the loop
    TOLD = auto()  # somebody says that there is work
    CHANGED = auto()  # somebody else has committed something
    NOTHING = auto()  # a hint that came to nothing, so far
    TIME = auto()  # the time is over


class Lookout(Protocol):
    """Waits for a word from the lanes, for work that others bring, or for the time. Used by the loop's thread alone."""

    def note(self) -> None:
        """What was committed until now is known, or is about to be looked at; what comes from now on is news."""

    def working(self) -> None:
        """A round found something to do."""

    def until_full(self, seconds: float) -> float:
        """Without room for more: how long to pause before it is asked again, at most `seconds`."""

    def in_vain(self) -> None:
        """The last change was none of our business."""

    def worth_it(self) -> None: ...

    def pause(self, seconds: float) -> None:
        """Wait for the bell alone."""

    def wait(self, seconds: float) -> News:
        """Wait for any news."""

    def close(self) -> None: ...
