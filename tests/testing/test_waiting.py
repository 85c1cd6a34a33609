from __future__ import annotations

import threading

import pytest

from rowcall.testing import eventually


def test_a_value_that_is_true_at_once_is_returned() -> None:
    assert eventually(lambda: [1]) == [1]


def test_it_waits_for_another_thread() -> None:
    done = threading.Event()
    threading.Timer(0.02, done.set).start()
    assert eventually(done.is_set)


def test_it_gives_up_and_says_what_it_saw() -> None:
    with pytest.raises(AssertionError, match=r"a miracle did not come within 0.02 s: \[\]"):
        eventually(list, within=0.02, message="a miracle")
