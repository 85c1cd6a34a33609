from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.base.clock import Clock
from rowcall.testing import FakeClock

NOON = datetime(2031, 5, 4, 12, tzinfo=UTC)


def test_a_fake_clock_stands_still() -> None:
    clock: Clock = FakeClock(NOON)
    assert clock.now() == clock.now() == NOON
    assert clock.monotonic() == clock.monotonic() == 0.0


def test_time_that_passes_moves_both_clocks() -> None:
    clock = FakeClock(NOON, monotonic=7.0)
    clock.advance(1.5)
    clock.advance(timedelta(minutes=1))
    assert clock.now() == NOON + timedelta(seconds=61.5)
    assert clock.monotonic() == 68.5


@pytest.mark.parametrize("seconds", [3600, -3600, timedelta(hours=-1)])
def test_a_jump_of_the_wall_clock_is_not_seen_by_the_monotonic_one(seconds: float | timedelta) -> None:
    clock = FakeClock(NOON)
    clock.jump(seconds)
    moved = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
    assert clock.now() == NOON + moved
    assert clock.monotonic() == 0.0


def test_the_wall_clock_can_be_set_and_speaks_utc() -> None:
    clock = FakeClock(NOON)
    clock.set(datetime(2031, 5, 4, 14, tzinfo=timezone(timedelta(hours=5))))
    assert clock.now() == datetime(2031, 5, 4, 9, tzinfo=UTC)
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() == 0.0


def test_monotonic_time_can_pass_alone() -> None:
    clock = FakeClock(NOON)
    clock.advance_monotonic(15)
    assert clock.now() == NOON
    assert clock.monotonic() == 15.0


def test_time_never_passes_backwards() -> None:
    clock = FakeClock(NOON)
    with pytest.raises(InvalidOption, match="advance"):
        clock.advance(-1)
    with pytest.raises(InvalidOption, match="seconds"):
        clock.advance_monotonic(-1)
    assert clock.now() == NOON


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(InvalidOption, match="time zone"):
        FakeClock(datetime(2031, 5, 4))
    with pytest.raises(InvalidOption, match="time zone"):
        FakeClock().set(datetime(2031, 5, 4))


def test_threads_may_move_one_clock_at_once() -> None:
    clock = FakeClock(NOON)

    def let_time_pass() -> None:
        for _ in range(500):
            clock.advance(1)

    threads = [threading.Thread(target=let_time_pass) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clock.monotonic() == 4000.0
    assert clock.now() == NOON + timedelta(seconds=4000)


def test_a_queue_takes_its_time_from_the_clock_it_is_given(tmp_path: Path) -> None:
    clock = FakeClock()
    with Rowcall(tmp_path / "queue.db", clock=clock) as jobs:
        first = jobs.enqueue("greet")
        clock.advance(0.25)
        second = jobs.enqueue("greet", delay=10)
    assert second.created_at - first.created_at == timedelta(milliseconds=250)
    assert second.run_at == clock.now() + timedelta(seconds=10)
