"""Waiting for a database that notifies no one: after a notification of this host, and after pauses that grow.

The pauses are for commits of other hosts, of plain SQL, and of callers, which notify before their commits.
"""

from __future__ import annotations

from collections.abc import Callable

from rowcall.wake.waiter_and_file_watch import NOISE_PAUSE_SECONDS, NOISY_WAKEUPS, Waker, Wakeup, watch

FIRST_SECONDS, LAST_SECONDS, GROWTH = 0.005, 0.25, 1.5


class Poller:
    """Says `CHANGED` after each notification and each pause, as something may have been committed.

    Processes of this host notify by changing the file at `path`; `create` makes it if it is missing.
    """

    def __init__(self, waker: Waker, path: str, create: Callable[[], None]) -> None:
        self._create = create
        create()
        self._watch = watch([path], waker)
        self._pause_seconds = FIRST_SECONDS
        self._is_notified = False
        self._useless_wakeups = 0

    def mark_idle(self) -> None:
        """Make the file again if someone has removed it."""
        self._create()

    def mark_busy(self) -> None:
        self.note_wakeup(useful=True)

    def note_wakeup(self, *, useful: bool) -> None:
        """After many notifications about jobs of other workers, treat several as one."""
        self._pause_seconds = FIRST_SECONDS if useful else min(self._pause_seconds * GROWTH, LAST_SECONDS)
        self._useless_wakeups = self._useless_wakeups + 1 if self._is_notified and not useful else 0

    def full_pause_seconds(self, seconds: float) -> float:
        return seconds

    def pause(self, seconds: float) -> None:
        self._watch.wait(seconds, files=False)

    def wait(self, seconds: float) -> Wakeup:
        is_noisy = self._useless_wakeups >= NOISY_WAKEUPS
        if is_noisy and self._watch.wait(min(seconds, NOISE_PAUSE_SECONDS), files=False)[0]:
            return Wakeup.WOKEN
        # a watch that is not early does not watch, but polls
        pause = min(seconds, self._pause_seconds)
        woken, self._is_notified = self._watch.wait(pause, files=self._watch.early)
        if self._is_notified:
            self._pause_seconds = FIRST_SECONDS
        if woken:
            return Wakeup.WOKEN
        return Wakeup.CHANGED if self._is_notified or self._pause_seconds < seconds else Wakeup.TIMEOUT

    def close(self) -> None:
        self._watch.close()
