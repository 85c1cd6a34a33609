"""How much is held ready: what can be begun within 50 ms, and no more."""

from __future__ import annotations

from rowcall.worker.loop.buffer_size import MOST_BUFFERED, MOST_BYTES_AHEAD, Pace


def test_nothing_is_held_before_anything_is_known() -> None:
    assert Pace().buffer_size == 0


def test_quick_jobs_fill_the_buffer_and_never_more() -> None:
    pace = Pace()
    for _ in range(50):
        pace.observe(finished=10_000, busy_seconds=0.01)
    assert pace.buffer_size == MOST_BUFFERED


def test_slow_jobs_are_not_held_ready() -> None:
    pace = Pace()
    for _ in range(50):
        pace.observe(finished=1, busy_seconds=0.1)
    assert pace.buffer_size == 0


def test_one_long_wait_empties_the_buffer() -> None:
    pace = Pace()
    for _ in range(50):
        pace.observe(finished=1000, busy_seconds=0.01)
    pace.observe(finished=1, busy_seconds=1.0)
    assert pace.buffer_size == 0


def test_large_payloads_are_not_piled_up() -> None:
    pace = Pace()
    for _ in range(50):
        pace.observe(finished=1000, busy_seconds=0.01)
        pace.observe_payloads([MOST_BYTES_AHEAD // 4] * 10)
    assert pace.buffer_size <= 4


def test_no_time_says_nothing() -> None:
    pace = Pace()
    pace.observe(finished=10, busy_seconds=0.0)
    pace.observe_payloads([])
    assert pace.buffer_size == 0
