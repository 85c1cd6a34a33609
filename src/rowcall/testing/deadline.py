"""Wait for a state, with a deadline; never for a length of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# look again soon at first, then after a tenth of the time waited so far: what is asked may be a database
FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS = 0.005, 0.05
DEADLINE_SECONDS = 20.0


def eventually(condition: Callable[[], T | None], *, within: float = DEADLINE_SECONDS, message: str = "") -> T:
    """Wait until `condition()` is true, and return its value; raise `AssertionError` when the time is over.

    >>> eventually(lambda: "here")
    'here'
    """
    pause = threading.Event()
    begun = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        waited = time.monotonic() - begun
        if waited > within:
            raise AssertionError(f"{message or 'what was waited for'} did not come within {within:g} s: {answer!r}")
        pause.wait(min(max(waited / 10, FIRST_PAUSE_SECONDS), LAST_PAUSE_SECONDS))
