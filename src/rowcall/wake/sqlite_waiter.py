"""Waiting for commits to a SQLite file: its writes are seen, and told apart from commits."""

from __future__ import annotations

from typing import Protocol

from rowcall.base.clock import Clock
from rowcall.wake.file_watch import watch
from rowcall.wake.waiter import Wakeup
from rowcall.wake.waker import Waker

# a write to the WAL is seen before its commit is: check after this pause, then after ever longer ones
FIRST_DOUBT_SECONDS, LAST_DOUBT_SECONDS, DOUBTED_SECONDS = 0.0003, 0.5, 5.0
# one notification may mean several commits: one is visible, the next is still on its way to the disk
AFTER_CHANGE_SECONDS, AFTER_NOISE_SECONDS = 0.002, 0.05
# if an app commits all the time, treat several of its commits as one notification
NOISY_WAKEUPS, NOISE_GAP_SECONDS, NOISE_PAUSE_SECONDS = 20, 0.012, 0.018


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
