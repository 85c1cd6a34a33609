"""A file of the worker's own: locked while it lives, and telling which of its jobs have begun.

The kernel frees the lock when the process dies, however it dies. What was written to the mapped file outlives the
process too, so that whoever recovers its jobs knows which of them had been started, at no cost in commits.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
import time
import uuid
import weakref
from collections import deque
from collections.abc import Iterable

from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers import forking
from rowcall.drivers.side_files import advice_on_rights, open_file

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

_PAIR = struct.Struct("<qqd")
PAIRS = 8192
NO_SLOT = 0
KEPT_SECONDS = 24 * 3600
_NEW = ".new"
_SIZE = _PAIR.size * (PAIRS + 1)  # the first place tells of which boot of the machine the others are; it may grow


def _boot() -> bytes:
    """What was written but not synced is gone with the boot it was written in."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return uuid.UUID(file.read().strip()).bytes
    except (OSError, ValueError):
        return bytes(range(16))


_BOOT = _boot()
_open_files: weakref.WeakSet[LivenessFile] = weakref.WeakSet()


class LivenessFile:
    """The id and lease of jobs whose handlers have begun, and when; each in a place of its own until it is settled."""

    def __init__(self, folder: str, name: str, database: str = "") -> None:
        self.path = os.path.join(folder, name)
        made = f"{self.path}{_NEW}"  # nobody tries its lock before it is taken
        with forking.lock:
            self._fd = open_file(made, database, os.O_EXCL)
            try:
                if fcntl is not None:
                    fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _allocate(self._fd, 0, _SIZE)
                self._map = mmap.mmap(self._fd, _SIZE)
                os.rename(made, self.path)
            except BaseException:
                os.close(self._fd)
                os.unlink(made)
                raise
            _open_files.add(self)
        self._map[: len(_BOOT)] = _BOOT
        self._free = deque(range(1, PAIRS + 1))
        self._closed = False

    def reserve(self, count: int) -> None:
        """Let the file have room for this many more jobs, or raise `StoreUnavailable`."""
        if len(self._free) >= count or self._closed:
            return
        size = len(self._map)
        grown = max(2 * size, size + count * _PAIR.size)
        try:
            _allocate(self._fd, size, grown)
            with forking.lock:
                # a thread that still writes to the former map writes to the same pages
                self._map = mmap.mmap(self._fd, grown)
        except OSError as error:
            what = f"{self.path} cannot grow to {grown // 1024} KB ({error.strerror}), and no more jobs can be started"
            raise StoreUnavailable(what, "Free some space, or lower the concurrency or the batch size") from error
        self._free.extend(range(size // _PAIR.size, grown // _PAIR.size))

    def mark_started(self, job_id: int, lease: int, started_at: float = 0.0) -> int:
        """Write down that a handler is about to begin; gives the place, to be freed once the attempt is settled.

        `started_at` is by the monotonic clock, which all processes of one boot share.
        """
        if self._closed or not self._free:
            return NO_SLOT
        place = self._free.popleft()
        _PAIR.pack_into(self._map, place * _PAIR.size, job_id, lease, started_at)
        return place

    def free(self, places: Iterable[int]) -> None:
        self._free.extend([place for place in places if place != NO_SLOT])

    def close(self) -> None:
        self._closed = True
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        with forking.lock:
            _open_files.discard(self)
            self._let_go()

    def _let_go(self) -> None:
        self._map.close()  # has a descriptor of its own
        os.close(self._fd)


def cannot_create(folder: str, error: OSError) -> StoreUnavailable:
    """Why a worker cannot have its file in that folder."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        place = folder if os.path.exists(folder) else os.path.dirname(folder)
        what = f"{place} cannot be written by this user, and a worker keeps a file there while it lives"
        return StoreUnavailable(what, advice_on_rights(place))
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        what = f"{folder}: the disk is full, and a worker keeps a file of {_SIZE // 1024} KB there"
        return StoreUnavailable(what, "Free some space, then start it again")
    what = f"{folder}: a worker cannot keep a file there ({error.strerror})"
    return StoreUnavailable(what, "It must be a folder beside the database, which Rowcall makes by itself")


def _allocate(fd: int, start: int, end: int) -> None:
    # a hole in the file would be filled at the first write to the map, and a full disk then kills the process
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, start, end - start)
    else:
        os.pwrite(fd, bytes(end - start), start)


def _close_inherited() -> None:
    """In a forked child: its copy of the descriptor would keep the lock when the worker dies."""
    forking.each(list(_open_files), LivenessFile._let_go)
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


def files_in(folder: str) -> set[str]:
    """Return the paths of all ledgers in a folder."""
    try:
        names = os.listdir(folder)
    except OSError:  # without the folder, nobody on this host has one
        return set()
    return {os.path.join(folder, name) for name in names if name.startswith("worker-") and not name.endswith(_NEW)}


def remove_old(folder: str) -> None:
    """Remove what workers left behind whose recovery was done elsewhere, once nobody can be asking for it any more."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            if name.startswith("worker-") and time.time() - os.stat(path).st_mtime > KEPT_SECONDS and is_dead(path):
                os.unlink(path)


def is_dead(path: str | None) -> bool:
    """Whether the owner of a ledger has surely died. False where that cannot be told from here."""
    if path is None or fcntl is None:
        return False
    with forking.lock:  # a child that is forked meanwhile would keep the lock
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except (OSError, ValueError):  # ValueError: a NUL in a path that plain SQL wrote
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        else:
            return True
        finally:
            os.close(fd)


def started_jobs(path: str | None) -> dict[tuple[int, int], float] | None:
    """What a dead worker had begun (id and lease), and when; None where that cannot be told from here."""
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    if len(data) < _SIZE or len(data) % _PAIR.size or not data.startswith(_BOOT):
        return None
    return {
        (job_id, lease): at for job_id, lease, at in _PAIR.iter_unpack(data[_PAIR.size :]) if (job_id, lease) != (0, 0)
    }


def remove(path: str | None) -> None:
    if path is not None:
        with contextlib.suppress(OSError):
            os.unlink(path)
