"""Whether a path still leads to the file that was opened by it.

SQLite goes on with a file that was deleted or replaced, and what is written then is seen by nobody else.
"""

from __future__ import annotations

import os
import time

SURE_SECONDS = 0.1


class SameFile:
    """Asked before each use, and looks now and then."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known = _identity(path)
        self._sure_until = time.monotonic() + SURE_SECONDS

    @property
    def is_there(self) -> bool:
        return _identity(self._path) is not None

    def is_same(self) -> bool:
        now = time.monotonic()
        if now < self._sure_until:
            return True
        if _identity(self._path) != self._known:
            return False
        self._sure_until = now + SURE_SECONDS
        return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
