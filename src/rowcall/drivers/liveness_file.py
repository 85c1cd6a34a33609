"""The liveness file: locked while its worker lives, it shows which of its jobs have been started.

The kernel frees the lock when the process dies, however it dies. What was written to the mapped file outlives the
process, so that another worker that recovers its jobs knows which of them had been started, without any commit.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
import uuid
import weakref
from collections import deque
from collections.abc import Iterable

from rowcall.base.clock import SYSTEM_CLOCK
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
_SIZE = _PAIR.size * (PAIRS + 1)  # slot 0 holds the id of the boot; the file may grow


def _boot() -> bytes:
    """Return the id of this boot of the machine: what was written but not synced is lost at the next one."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return uuid.UUID(file.read().strip()).bytes
    except (OSError, ValueError):
        return bytes(range(16))


_BOOT = _boot()
_open_files: weakref.WeakSet[LivenessFile] = weakref.WeakSet()


class LivenessFile:
    """Holds the id, the lease and the start of each running job, in a slot until the attempt is settled."""

    def __init__(self, folder: str, name: str, database: str = "") -> None:
        self.path = os.path.join(folder, name)
        made = f"{self.path}{_NEW}"  # no one tries its lock before it is taken
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
        """Make room for this many more jobs, or raise `StoreUnavailable`."""
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
            problem = f"{self.path} cannot grow to {grown // 1024} KB ({error.strerror}): no more jobs can start"
            raise StoreUnavailable(problem, "Free some space, or lower the concurrency or the batch size") from error
        self._free.extend(range(size // _PAIR.size, grown // _PAIR.size))

    def mark_started(self, job_id: int, lease: int, started_at: float = 0.0) -> int:
        """Record that a handler is about to start. Return the slot, to be freed once the attempt is settled.

        `started_at` is a time of the monotonic clock, which all processes of one boot share.
        """
        if self._closed or not self._free:
            return NO_SLOT
        slot = self._free.popleft()
        _PAIR.pack_into(self._map, slot * _PAIR.size, job_id, lease, started_at)
        return slot

    def free(self, slots: Iterable[int]) -> None:
        self._free.extend([slot for slot in slots if slot != NO_SLOT])

    def close(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.release()

    def release(self) -> None:
        """Free the lock and leave the file: it shows other workers at once that this one is gone."""
        self._closed = True
        with forking.lock:
            _open_files.discard(self)
            self._let_go()

    def _let_go(self) -> None:
        self._map.close()  # it has its own descriptor
        os.close(self._fd)


def cannot_create(folder: str, error: OSError) -> StoreUnavailable:
    """Return the error for a worker that cannot create its file in that folder."""
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        existing = folder if os.path.exists(folder) else os.path.dirname(folder)
        problem = f"{existing} cannot be written by this user, and a worker keeps a file there while it lives"
        return StoreUnavailable(problem, advice_on_rights(existing))
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        problem = f"{folder}: the disk is full, and a worker keeps a file of {_SIZE // 1024} KB there"
        return StoreUnavailable(problem, "Free some space, then start it again")
    problem = f"{folder}: a worker cannot keep a file there ({error.strerror})"
    return StoreUnavailable(problem, "It must be a folder next to the database; Rowcall creates it")


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
    """Return the paths of all liveness files in a folder."""
    try:
        names = os.listdir(folder)
    except OSError:  # no folder, no files
        return set()
    return {os.path.join(folder, name) for name in names if name.startswith("worker-") and not name.endswith(_NEW)}


def remove_old(folder: str) -> None:
    """Remove the files of dead workers that were recovered from another host, once no one can need them."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            age = SYSTEM_CLOCK.wall() - os.stat(path).st_mtime
            if name.startswith("worker-") and age > KEPT_SECONDS and is_dead(path):
                os.unlink(path)


def is_dead(path: str | None) -> bool:
    """Return whether the owner of a liveness file has certainly died; False if this host cannot know."""
    if path is None or fcntl is None:
        return False
    with forking.lock:  # a child that is forked here would keep the lock
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
    """Return when a dead worker started each (id, lease), or None if this host cannot know."""
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
