"""Hints are early and come in heaps: which of them are followed, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from rowcall.base.clock import Clock
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.wake import waiter_and_file_watch as waiter_module
from rowcall.wake.waiter_and_file_watch import SqliteWaiter, Waker, Wakeup, Watch

LONG = 5.0


class ScriptedTime:
    """Passes only during waits."""

    def __init__(self) -> None:
        self.now = 1000.0

    def timer(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class ScriptedWatch:
    """Returns prepared answers, and records how long it was asked to wait."""

    early = True

    def __init__(self, time: ScriptedTime) -> None:
        self._time = time
        self.answers: list[tuple[bool, bool]] = []
        self.waits: list[float] = []

    def wait(self, seconds: float, *, files: bool) -> tuple[bool, bool]:
        self.waits.append(seconds)
        if self.answers:
            return self.answers.pop(0)
        self._time.sleep(seconds)
        return False, False

    def close(self) -> None:
        pass


class ScriptedCounter:
    """A connection of which only the counter of changes is asked: the number of commits that are visible."""

    def __init__(self, time: ScriptedTime) -> None:
        self._time = time
        self._visible_at: list[float] = []

    def commit(self, after_seconds: float = 0.0) -> None:
        self._visible_at.append(self._time.now + after_seconds)

    def change_counter(self) -> int:
        return len([at for at in self._visible_at if at <= self._time.now])

    def late_by(self) -> float:
        """How long the last commit had been visible."""
        return self._time.now - self._visible_at[-1]


@pytest.fixture
def waker() -> Iterator[Waker]:
    waker = Waker()
    yield waker
    waker.close()


@pytest.fixture
def scripted(
    tmp_path: Path, waker: Waker, monkeypatch: pytest.MonkeyPatch
) -> tuple[ScriptedWatch, ScriptedCounter, SqliteWaiter]:
    time = ScriptedTime()
    watch, counter = ScriptedWatch(time), ScriptedCounter(time)

    def make_watch(paths: list[str], waker: Waker) -> Watch:
        return watch

    monkeypatch.setattr(waiter_module, "watch", make_watch)
    waiter = SqliteWaiter(cast(SqliteConnection, counter), str(tmp_path / "queue.db"), waker, cast(Clock, time))
    waiter.mark_idle()
    return watch, counter, waiter


Scripted = tuple[ScriptedWatch, ScriptedCounter, SqliteWaiter]


def test_the_time_is_over(scripted: Scripted) -> None:
    watch, _, waiter = scripted
    assert waiter.wait(LONG) is Wakeup.TIMEOUT
    assert watch.waits == [LONG]


def test_a_commit_is_reported(scripted: Scripted) -> None:
    watch, counter, waiter = scripted
    watch.answers = [(False, True)]
    counter.commit()
    assert waiter.wait(LONG) is Wakeup.CHANGED


@pytest.mark.parametrize("seconds", [0.003, 0.03, 0.3])
def test_a_write_whose_commit_takes_its_time_is_waited_for(scripted: Scripted, seconds: float) -> None:
    """No second notification comes when the commit is visible at last."""
    watch, counter, waiter = scripted
    watch.answers = [(False, True)]
    counter.commit(seconds)
    assert waiter.wait(LONG) is Wakeup.CHANGED
    assert counter.late_by() <= seconds


def test_a_slow_disk_is_waited_for_as_long_as_the_floor(scripted: Scripted) -> None:
    """The pauses stay short until the worker would look on its own anyway."""
    watch, counter, waiter = scripted
    watch.answers = [(False, True)]
    counter.commit(LONG * 0.9)
    assert waiter.wait(LONG) is Wakeup.CHANGED
    assert max(watch.waits[1:]) <= 0.5


def test_two_commits_behind_one_notification_are_both_seen(scripted: Scripted) -> None:
    """The second write is read together with the first; its commit is visible only later."""
    watch, counter, waiter = scripted
    watch.answers = [(False, True)]
    counter.commit()
    counter.commit(0.01)
    assert waiter.wait(LONG) is Wakeup.CHANGED
    assert waiter.wait(LONG) is Wakeup.CHANGED
    assert counter.late_by() <= 0.01


def test_a_write_that_comes_with_the_waker_is_kept(scripted: Scripted) -> None:
    watch, counter, waiter = scripted
    watch.answers = [(True, True)]
    counter.commit()
    assert waiter.wait(LONG) is Wakeup.WOKEN
    assert waiter.wait(LONG) is Wakeup.CHANGED
    assert watch.waits[-1] < 0.5


def test_doubt_ends(scripted: Scripted) -> None:
    """A write that is rolled back, or a checkpoint, is not followed for ever."""
    watch, _, waiter = scripted
    watch.answers = [(False, True)]
    assert waiter.wait(LONG) is Wakeup.TIMEOUT
    assert waiter.wait(LONG) is Wakeup.TIMEOUT
    assert len(watch.waits) < 60
    watch.waits.clear()
    assert waiter.wait(LONG) is Wakeup.TIMEOUT
    assert watch.waits == [LONG]
