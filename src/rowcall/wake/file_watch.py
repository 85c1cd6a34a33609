"""Waiting for a change of some files, or for another thread of this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import sys
from typing import Protocol

from rowcall.wake.waker import Waker

IN_MODIFY, IN_ATTRIB, IN_MOVE_SELF, IN_DELETE_SELF = 0x2, 0x4, 0x800, 0x400
IN_IGNORED = 0x8000
_EVENT = struct.Struct("iIII")
POLL_FIRST_SECONDS, POLL_LAST_SECONDS = 0.005, 0.1


class Watch(Protocol):
    early: bool
    """Whether it reports a write before its commit is visible."""

    def wait(self, seconds: float, *, files: bool) -> tuple[bool, bool]:
        """Return whether the waker was used, and, with `files`, whether a file may have changed."""

    def close(self) -> None: ...


def watch(paths: list[str], waker: Waker) -> Watch:
    """Return the best watch that this system has."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return InotifyWatch(paths, waker)
    return PollingWatch(waker)


class InotifyWatch:
    """The kernel reports writes to the files; nothing runs in between."""

    early = True

    def __init__(self, paths: list[str], waker: Waker) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._paths = paths
        self._watched: dict[str, int] = {}
        self._waker = waker
        self._fd = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._poll.register(waker.fileno(), select.POLLIN)
        self._waker_poll = select.poll()
        self._waker_poll.register(waker.fileno(), select.POLLIN)
        self._add_missing()

    def wait(self, seconds: float, *, files: bool) -> tuple[bool, bool]:
        appeared = len(self._watched) < len(self._paths) and self._add_missing()
        if appeared and files:
            return False, True
        poll = self._poll if files else self._waker_poll
        woken = changed = False
        for fd, _ in poll.poll(seconds * 1000 if seconds > 0 else 0):
            if fd == self._fd:
                changed = self._read()
            else:
                woken = True
                self._waker.clear()
        return woken, changed

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
                self._drop_if_gone(descriptor, mask)
        return True

    def _drop_if_gone(self, descriptor: int, mask: int) -> None:
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
    """Where the kernel reports nothing: check now and then, ever less often while nothing happens."""

    early = False

    def __init__(self, waker: Waker) -> None:
        self._waker = waker
        self._pause_seconds = POLL_FIRST_SECONDS

    def wait(self, seconds: float, *, files: bool) -> tuple[bool, bool]:
        pause = min(self._pause_seconds, max(0.0, seconds)) if files else seconds
        woken = self._waker.wait(pause)
        if woken:
            self._pause_seconds = POLL_FIRST_SECONDS
        else:
            self._pause_seconds = min(self._pause_seconds * 1.5, POLL_LAST_SECONDS)
        return woken, files

    def close(self) -> None:
        pass
