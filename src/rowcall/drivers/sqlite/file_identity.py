"""Check that a path still leads to the file that was opened by it.

SQLite continues with a file that was deleted or replaced, and no one else sees what it writes then.
"""

from __future__ import annotations

import os

from rowcall.base.clock import SYSTEM_CLOCK

TRUSTED_SECONDS = 0.1


class SameFile:
    """Asked before each use; asks the file system now and then."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known = _identity(path)
        self._trusted_until = SYSTEM_CLOCK.timer() + TRUSTED_SECONDS

    @property
    def exists(self) -> bool:
        return _identity(self._path) is not None

    def is_same(self) -> bool:
        now = SYSTEM_CLOCK.timer()
        if now < self._trusted_until:
            return True
        if _identity(self._path) != self._known:
            return False
        self._trusted_until = now + TRUSTED_SECONDS
        return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
