"""Ending a wait from another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from rowcall.wake.waiter_and_file_watch import Waker


@pytest.fixture
def waker() -> Iterator[Waker]:
    waker = Waker()
    yield waker
    waker.close()


def test_a_wait_ends_when_another_thread_wakes_it(waker: Waker) -> None:
    threading.Thread(target=waker.wake).start()
    assert waker.wait(10.0)
    assert not waker.wait(0.0)


def test_many_calls_are_one_wake_up(waker: Waker) -> None:
    for _ in range(100_000):  # more than the pipe holds
        waker.wake()
    assert waker.wait(0.0)
    assert not waker.wait(0.0)


def test_only_an_announced_wait_is_woken(waker: Waker) -> None:
    waker.wake_if_armed()
    assert not waker.wait(0.0)
    waker.arm()
    waker.wake_if_armed()
    waker.wake_if_armed()
    assert waker.wait(0.0)


def test_closing_twice_and_waking_after_it_do_nothing() -> None:
    waker = Waker()
    waker.close()
    waker.close()
    waker.wake()
