"""Ending a wait from another thread of this process."""

from __future__ import annotations

import contextlib
import os
import select
import threading

MOST_READ = 4096


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
