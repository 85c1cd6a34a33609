from __future__ import annotations

import threading

import pytest

from rowcall.base.clock import SystemClock
from rowcall.domain.errors import StoreUnavailable
from rowcall.worker.outage import Outage
from rowcall.worker.service import Background

CLOCK = SystemClock()


def test_a_second_start_stop_or_wait_does_nothing() -> None:
    begun: list[Background] = []

    def work(thread: Background) -> None:
        begun.append(thread)
        while thread.pause(60):
            pytest.fail("it was not stopped")

    service = Background("example", work, CLOCK)
    for step in (service.start, service.stop, service.wait):
        step()
        step()
    assert begun == [service]


def test_a_service_that_was_stopped_does_not_start() -> None:
    service = Background("example", lambda thread: pytest.fail("it started"), CLOCK)
    service.stop()
    service.start()
    service.wait()


def test_a_stop_wakes_a_thread_that_waits_for_something_to_do() -> None:
    wake, woken = threading.Event(), threading.Event()

    def work(thread: Background) -> None:
        wake.wait()
        assert thread.stopping()
        woken.set()

    service = Background("example", work, CLOCK, wake=wake)
    service.start()
    service.stop()
    service.wait()
    assert woken.is_set()


def test_errors_are_outlived_and_an_outage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    service = Background("example", lambda thread: None, CLOCK, outage=Outage(CLOCK))

    def away() -> None:
        raise StoreUnavailable("no route")

    def broken() -> None:
        raise ZeroDivisionError

    assert not service.attempt(away)
    assert not service.attempt(away)
    assert service.attempt(lambda: None)
    assert not service.attempt(broken)
    first, second, third = caplog.messages
    assert first.startswith("the database is out of reach, trying again until it succeeds: no route")
    assert second.startswith("the database is back after ")
    assert third == "example failed with an unexpected error"
