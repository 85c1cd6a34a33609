"""Waiting beside a SQLite file: its writes are seen, and told apart from commits."""

from __future__ import annotations

import time
from typing import Protocol

from rowcall.wake.file_watch import Bell, watch
from rowcall.wake.notification import News

# a write to the WAL is seen before its commit is: look after this pause, then after ever longer ones
FIRST_DOUBT_SECONDS, LAST_DOUBT_SECONDS, DOUBTED_SECONDS = 0.0005, 0.25, 5.0
# a hint may stand for several commits, of which one is seen and the next is still on its way to the disk
AFTER_CHANGE_SECONDS, AFTER_NOISE_SECONDS = 0.002, 0.05
# beside an app that commits all the time, several of its commits are one hint
NOISY_HINTS, NOISE_GAP_SECONDS, NOISE_PAUSE_SECONDS = 20, 0.012, 0.018


class Counter(Protocol):
    def change_counter(self) -> int:
        """A number that changes when others commit."""


class FileLookout:
    """Tells commits of others apart from mere writes, by a counter of SQLite's that is cheap to ask."""

    def __init__(self, connection: Counter, path: str, bell: Bell) -> None:
        self._connection = connection
        self._watch = watch([f"{path}-wal", path], bell)
        self._counter = -1
        self._doubt_seconds: float | None = None
        self._hinted_at = 0.0
        self._vain_hints = 0

    def note(self) -> None:
        """What was committed until now is known, or is about to be looked at."""
        self._counter = self._connection.change_counter()

    def working(self) -> None:
        pass

    def until_full(self, seconds: float) -> float:
        return seconds

    def in_vain(self) -> None:
        """The last change was none of our business."""
        self._vain_hints += 1

    def worth_it(self) -> None:
        self._vain_hints = 0

    def pause(self, seconds: float) -> None:
        """Wait for the bell alone."""
        self._watch.wait(seconds, hints=False)

    def wait(self, seconds: float) -> News:
        """Wait for any news."""
        deadline = time.monotonic() + seconds
        if self._doubt_seconds is not None:
            seconds = min(seconds, self._doubt_seconds)
        rung, changed = self._watch.wait(seconds, hints=True)
        if changed and self._watch.early:
            self._doubt_seconds = FIRST_DOUBT_SECONDS
            rung = self._let_commit(0.0 if rung else max(0.0, deadline - time.monotonic())) or rung
        return News.RUNG if rung else self._compare(changed=changed)

    @property
    def _is_noisy(self) -> bool:
        return self._vain_hints >= NOISY_HINTS

    def _let_commit(self, most_seconds: float) -> bool:
        """Give a write the time to be committed; gives whether the bell rang meanwhile."""
        now = time.monotonic()
        if now - self._hinted_at > NOISE_GAP_SECONDS:
            self._vain_hints = 0
        self._hinted_at = now
        if not self._is_noisy:
            # most commits are over by then, and the writes of one are one hint
            time.sleep(min(FIRST_DOUBT_SECONDS, most_seconds))
            return False
        rung = self._watch.wait(min(NOISE_PAUSE_SECONDS, most_seconds), hints=False)[0]
        self._hinted_at = time.monotonic()  # the gap to the next hint begins now
        return rung

    def _compare(self, *, changed: bool) -> News:
        counter = self._connection.change_counter()
        if counter != self._counter:
            self._counter = counter
            again = AFTER_NOISE_SECONDS if self._is_noisy else AFTER_CHANGE_SECONDS
            self._doubt_seconds = again if self._watch.early else None
            return News.CHANGED
        if self._doubt_seconds is not None:
            longer = min(self._doubt_seconds * 2, LAST_DOUBT_SECONDS)
            self._doubt_seconds = longer if time.monotonic() - self._hinted_at < DOUBTED_SECONDS else None
            return News.NOTHING
        return News.NOTHING if changed else News.TIME

    def close(self) -> None:
        self._watch.close()
