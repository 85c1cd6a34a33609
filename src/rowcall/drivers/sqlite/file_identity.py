"""Check that a path still leads to the file that was opened by it.

SQLite continues with a file that was deleted or replaced, and no one else sees what it writes then.
"""

from __future__ import annotations

import os

from rowcall.base.clock import SYSTEM_CLOCK

TRUSTED_SECONDS = 0.1


class SameFile:
    """Asked before each use; asks the file system now and then. The WAL belongs to the file: while a connection is
    open, SQLite neither deletes nor replaces it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._known = _identity(path)
        self._wal = _identity(f"{path}-wal")
        self._trusted_until = SYSTEM_CLOCK.timer() + TRUSTED_SECONDS

    @property
    def exists(self) -> bool:
        return _identity(self._path) is not None

    @property
    def lost_only_its_wal(self) -> bool:
        return _identity(self._path) == self._known

    def is_same(self) -> bool:
        if self._wal is None:  # SQLite makes it when the file is first read
            self._wal = _identity(f"{self._path}-wal")
        now = SYSTEM_CLOCK.timer()
        if now < self._trusted_until:
            return True
        if _identity(self._path) != self._known or self._wal not in (None, _identity(f"{self._path}-wal")):
            return False
        self._trusted_until = now + TRUSTED_SECONDS
        return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
