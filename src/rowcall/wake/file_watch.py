"""Waiting for a change of some files, or for a word from another thread of this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import sys
import threading
from typing import Protocol

IN_MODIFY, IN_ATTRIB, IN_MOVE_SELF, IN_DELETE_SELF = 0x2, 0x4, 0x800, 0x400
IN_IGNORED = 0x8000
_EVENT = struct.Struct("iIII")
POLL_FIRST_SECONDS, POLL_LAST_SECONDS = 0.005, 0.1


class Bell:
    """A word from another thread: `ring` ends the wait of whoever watches."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._armed = False
        self._closed = False
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self._reader

    def ring(self) -> None:
        # under the lock: a descriptor that is closed meanwhile may already be somebody else's
        with self._lock, contextlib.suppress(BlockingIOError):  # full: it is ringing already
            if not self._closed:
                os.write(self._writer, b"!")

    def arm(self) -> None:
        """Say that a wait is about to begin; look once more for what `nudge` tells of before it does."""
        self._armed = True

    def nudge(self) -> None:
        """`ring`, where somebody waits: costs nothing while the loop is busy anyway."""
        if self._armed:
            self._armed = False
            self.ring()

    def silence(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._reader, 4096):
                pass

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reader)
                os.close(self._writer)


def is_readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read, now or soon. Not `select`, which refuses descriptors above 1,023."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000 if seconds > 0 else 0))


class Watch(Protocol):
    """`wait` gives (rung, changed): whether the bell rang, and whether a file may have changed.

    An early watch tells of a write before its commit can be seen.
    """

    early: bool

    def wait(self, seconds: float, *, hints: bool) -> tuple[bool, bool]: ...
    def close(self) -> None: ...


def watch(paths: list[str], bell: Bell) -> Watch:
    """The best watch this system has."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return InotifyWatch(paths, bell)
    return PollingWatch(bell)


class InotifyWatch:
    """The kernel tells of writes to the files; nothing runs in between."""

    early = True

    def __init__(self, paths: list[str], bell: Bell) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._paths = paths
        self._watched: dict[str, int] = {}
        self._bell = bell
        self._fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._poll.register(bell.fileno(), select.POLLIN)
        self._bell_poll = select.poll()
        self._bell_poll.register(bell.fileno(), select.POLLIN)
        self._add_missing()

    def wait(self, seconds: float, *, hints: bool) -> tuple[bool, bool]:
        appeared = len(self._watched) < len(self._paths) and self._add_missing()
        if appeared and hints:
            return False, True
        poll = self._poll if hints else self._bell_poll
        rung = changed = False
        for fd, _ in poll.poll(seconds * 1000 if seconds > 0 else 0):
            if fd == self._fd:
                changed = self._read()
            else:
                rung = True
                self._bell.silence()
        return rung, changed

    def _read(self) -> bool:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return False
        at = 0
        while at < len(data):
            descriptor, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask != IN_MODIFY:
                self._forget_if_gone(descriptor, mask)
        return True

    def _forget_if_gone(self, descriptor: int, mask: int) -> None:
        gone = mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED)
        self._watched = {
            path: known
            for path, known in self._watched.items()
            if known != descriptor or not (gone or (mask & IN_ATTRIB and not os.path.exists(path)))
        }

    def _add_missing(self) -> bool:
        before = len(self._watched)
        for path in self._paths:
            if path not in self._watched and os.path.exists(path):
                mask = IN_MODIFY | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF
                added = self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask)
                if added >= 0:
                    self._watched[path] = added
        return len(self._watched) > before

    def _checked(self, result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result

    def close(self) -> None:
        os.close(self._fd)


class PollingWatch:
    """Where the kernel tells nothing: look now and then, ever less often while nothing happens."""

    early = False

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._pause_seconds = POLL_FIRST_SECONDS

    def wait(self, seconds: float, *, hints: bool) -> tuple[bool, bool]:
        pause = min(self._pause_seconds, max(0.0, seconds)) if hints else seconds
        rung = is_readable(self._bell.fileno(), pause)
        if rung:
            self._bell.silence()
            self._pause_seconds = POLL_FIRST_SECONDS
        else:
            self._pause_seconds = min(self._pause_seconds * 1.5, POLL_LAST_SECONDS)
        return rung, hints

    def close(self) -> None:
        pass
