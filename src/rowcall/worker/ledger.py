"""A file of the worker's own: locked while it lives, and telling which jobs left its buffer.

The kernel frees the lock when the process dies, however it dies. What was written to the mapped file outlives the
process too, so that whoever recovers its jobs knows which of them had been started, at no cost in commits.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import struct
import weakref

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_PAIR = struct.Struct("<qq")
PAIRS = 8192
_SIZE = _PAIR.size * PAIRS
_open_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


class Ledger:
    """The (id, lease) of started jobs, in a ring larger than all that can be unsettled at once."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = os.path.join(folder, name)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if fcntl is not None:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _allocate(self._fd)
        self._map = mmap.mmap(self._fd, _SIZE)
        self._next = itertools.count()
        _open_ledgers.add(self)

    def mark_started(self, job_id: int, lease: int) -> None:
        _PAIR.pack_into(self._map, next(self._next) % PAIRS * _PAIR.size, job_id, lease)

    def close(self) -> None:
        _open_ledgers.discard(self)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self._map.close()
        os.close(self._fd)


def _allocate(fd: int) -> None:
    # a hole in the file would be filled at the first write to the map, and a full disk then kills the process
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, _SIZE)
    else:
        os.write(fd, bytes(_SIZE))


def _close_inherited() -> None:
    """In a forked child: its copy of the descriptor would keep the lock when the worker dies."""
    for ledger in list(_open_ledgers):
        ledger._map.close()  # has a descriptor of its own
        os.close(ledger._fd)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


def is_dead(path: str | None) -> bool:
    """Whether the owner of a ledger has surely died. False where that cannot be told from here."""
    if path is None or fcntl is None:
        return False
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(fd)


def started_jobs(path: str | None) -> set[tuple[int, int]]:
    """What a dead worker had started, as far as its file tells."""
    if path is None:
        return set()
    try:
        with open(path, "rb") as file:
            data = file.read(_SIZE)
    except OSError:
        return set()
    return {pair for pair in _PAIR.iter_unpack(data[: len(data) // _PAIR.size * _PAIR.size]) if pair != (0, 0)}


def remove(path: str | None) -> None:
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)
