"""What a thread waits with, and what can end its wait: another thread of this process, or a commit.

For commits to a SQLite file, a watch sees the writes, and the waiter tells them apart from commits.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import sys
import threading
from enum import Enum, auto
from typing import Protocol

from rowcall.base.clock import Clock

MOST_READ = 4096
# a write to the WAL is seen before its commit is: check after this pause, then after ever longer ones
FIRST_DOUBT_SECONDS, LAST_DOUBT_SECONDS, DOUBTED_SECONDS = 0.0003, 0.5, 5.0
# one notification may mean several commits: one is visible, the next is still on its way to the disk
AFTER_CHANGE_SECONDS, AFTER_NOISE_SECONDS = 0.002, 0.05
# if an app commits all the time, treat several of its commits as one notification
NOISY_WAKEUPS, NOISE_GAP_SECONDS, NOISE_PAUSE_SECONDS = 20, 0.012, 0.018
IN_MODIFY, IN_ATTRIB, IN_MOVE_SELF, IN_DELETE_SELF = 0x2, 0x4, 0x800, 0x400
IN_IGNORED = 0x8000
_EVENT = struct.Struct("iIII")
POLL_FIRST_SECONDS, POLL_LAST_SECONDS = 0.005, 0.1


class Wakeup(Enum):
    WOKEN = auto()  # by another thread of this process
    NOTIFIED = auto()  # another process says that there is work
    CHANGED = auto()  # another connection has committed something
    NOTHING = auto()  # a notification without a commit, so far
    TIMEOUT = auto()


class Waiter(Protocol):
    """Used by one thread alone: the loop of a worker, or the one that waits for all callers and readers of events."""

    def wait(self, seconds: float) -> Wakeup: ...

    def note_wakeup(self, *, useful: bool) -> None:
        """Say whether the last notification or commit was about something that the thread waits for."""

    def close(self) -> None: ...


class WorkerWaiter(Waiter, Protocol):
    """A worker also says when it is busy."""

    def mark_idle(self) -> None:
        """Call before the last check for work: a commit from now on ends the wait."""

    def mark_busy(self) -> None:
        """Call after a round that found work."""

    def full_pause_seconds(self, seconds: float) -> float:
        """Return how long to pause while there is no room for more jobs: at most `seconds`."""

    def pause(self, seconds: float) -> None:
        """Wait for the waker alone."""


class Waker:
    """One thread waits until another one calls `wake`."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._armed = False
        self._closed = False
        self._lock = threading.Lock()

    def fileno(self) -> int:
        return self._reader

    def wait(self, seconds: float) -> bool:
        """Wait for `wake`, at most `seconds`. Return whether it was called since the last wait."""
        woken = is_readable(self._reader, seconds)
        if woken:
            self.clear()
        return woken

    def wake(self) -> None:
        # under the lock: a closed descriptor may already belong to another file
        with self._lock, contextlib.suppress(BlockingIOError):  # the pipe is full: the waiter wakes up anyway
            if not self._closed:
                os.write(self._writer, b"!")

    def arm(self) -> None:
        """Announce a wait. Check for what `wake_if_armed` reports after this call, and before the wait."""
        self._armed = True

    def wake_if_armed(self) -> None:
        """Call `wake` only if a wait was announced: costs nothing while the loop is busy."""
        if self._armed:
            self._armed = False
            self.wake()

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._reader, MOST_READ)) == MOST_READ:
                pass

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._reader)
                os.close(self._writer)


def is_readable(descriptor: int, seconds: float) -> bool:
    """Return whether there is something to read within `seconds`."""
    poll = select.poll()  # not `select`, which refuses descriptors above 1,023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000 if seconds > 0 else 0))


class Counter(Protocol):
    def change_counter(self) -> int:
        """Return a number that changes when another connection commits."""


class SqliteWaiter:
    """Tells commits apart from mere writes by SQLite's change counter, which is cheap to read."""

    def __init__(self, connection: Counter, path: str, waker: Waker, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._timer = clock.timer
        self._watch = watch([f"{path}-wal"], waker)
        self._counter = -1
        self._doubt_seconds: float | None = None
        self._written_at = 0.0
        self._useless_wakeups = 0

    def mark_idle(self) -> None:
        self._counter = self._connection.change_counter()

    def mark_busy(self) -> None:
        pass

    def note_wakeup(self, *, useful: bool) -> None:
        self._useless_wakeups = 0 if useful else self._useless_wakeups + 1

    def full_pause_seconds(self, seconds: float) -> float:
        return seconds

    def pause(self, seconds: float) -> None:
        self._watch.wait(seconds, files=False)

    def wait(self, seconds: float) -> Wakeup:
        deadline = self._timer() + seconds
        while True:
            remaining = max(0.0, deadline - self._timer())
            pause = remaining if self._doubt_seconds is None else min(remaining, self._doubt_seconds)
            woken, written = self._watch.wait(pause, files=True)
            if written and self._watch.early:
                self._doubt_seconds = FIRST_DOUBT_SECONDS
                woken = self._let_commit(0.0 if woken else max(0.0, deadline - self._timer())) or woken
            if woken:
                return Wakeup.WOKEN
            if self._is_changed():
                return Wakeup.CHANGED
            if self._timer() >= deadline:
                return Wakeup.TIMEOUT

    @property
    def _is_noisy(self) -> bool:
        return self._useless_wakeups >= NOISY_WAKEUPS

    def _let_commit(self, most_seconds: float) -> bool:
        """Give a write the time to be committed. Return whether the waker was used before that."""
        now = self._timer()
        if now - self._written_at > NOISE_GAP_SECONDS:
            self._useless_wakeups = 0
        self._written_at = now
        if not self._is_noisy:
            # most commits are over by then, and all writes of one commit are one notification
            self._clock.sleep(min(FIRST_DOUBT_SECONDS, most_seconds))
            return False
        woken = self._watch.wait(min(NOISE_PAUSE_SECONDS, most_seconds), files=False)[0]
        self._written_at = self._timer()  # the gap to the next write begins now
        return woken

    def _is_changed(self) -> bool:
        """Return whether another connection has committed. While in doubt, decide when to compare again."""
        counter = self._connection.change_counter()
        if counter != self._counter:
            self._counter = counter
            again = AFTER_NOISE_SECONDS if self._is_noisy else AFTER_CHANGE_SECONDS
            self._doubt_seconds = again if self._watch.early else None
            return True
        if self._doubt_seconds is not None:
            longer = min(self._doubt_seconds * 2, LAST_DOUBT_SECONDS)
            self._doubt_seconds = longer if self._timer() - self._written_at < DOUBTED_SECONDS else None
        return False

    def close(self) -> None:
        self._watch.close()


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
