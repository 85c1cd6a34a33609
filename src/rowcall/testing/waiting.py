"""Wait for a state, with a deadline; never for a length of time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.005
DEADLINE_SECONDS = 20.0


def eventually(condition: Callable[[], T | None], *, within: float = DEADLINE_SECONDS, message: str = "") -> T:
    """Wait until `condition()` is true, and return its value; raise `AssertionError` when the time is over.

    >>> eventually(lambda: "here")
    'here'
    """
    pause = threading.Event()
    deadline = time.monotonic() + within
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{message or 'what was waited for'} did not come within {within:g} s: {answer!r}")
        pause.wait(LOOK_AGAIN_SECONDS)
