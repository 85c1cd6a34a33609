"""An outage is logged once, and the pauses of the loop grow."""

from __future__ import annotations

import logging

import pytest

from rowcall.domain.errors import Conflict, StoreUnavailable
from rowcall.worker.outage import Outage, Trouble
from rowcall.worker.pace import (
    CONFLICT_SECONDS,
    FIRST_OUTAGE_SECONDS,
    LAST_OUTAGE_SECONDS,
    MOST_CONFLICTS,
    STOPPING_OUTAGE_SECONDS,
)
from tests.worker.timers import StoppedClock


def test_an_outage_is_logged_when_it_begins_and_when_every_thread_is_over_it(caplog: pytest.LogCaptureFixture) -> None:
    clock = StoppedClock()
    outage = Outage(clock)
    with caplog.at_level(logging.INFO, "rowcall"):
        outage.noticed("loop", StoreUnavailable("gone"))
        outage.noticed("recovery", StoreUnavailable("gone"))
        clock.at += 2.5
        outage.over("loop")
        outage.over("loop")
        outage.over("recovery")
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "out of reach" in messages[0]
    assert messages[1] == "the database is back after 2.5 s"


def test_pauses_grow_and_start_again_after_a_success() -> None:
    pauses: list[float] = []
    trouble = Trouble(Outage(StoppedClock()), StoppedClock(), pauses.append)
    for _ in range(10):
        trouble.failed(StoreUnavailable("gone"), stopping=False)
    assert pauses[:3] == [FIRST_OUTAGE_SECONDS, 2 * FIRST_OUTAGE_SECONDS, 4 * FIRST_OUTAGE_SECONDS]
    assert pauses[-1] == LAST_OUTAGE_SECONDS
    assert trouble.is_out_of_reach
    trouble.failed(StoreUnavailable("gone"), stopping=True)
    assert pauses[-1] == STOPPING_OUTAGE_SECONDS
    trouble.succeeded()
    assert not trouble.is_out_of_reach


def test_conflicts_are_short_until_there_are_too_many() -> None:
    pauses: list[float] = []
    trouble = Trouble(Outage(StoppedClock()), StoppedClock(), pauses.append)
    for _ in range(MOST_CONFLICTS):
        trouble.conflict(Conflict("locked"), stopping=False)
    assert set(pauses) == {CONFLICT_SECONDS}
    assert not trouble.is_out_of_reach
    trouble.conflict(Conflict("locked"), stopping=False)
    assert trouble.is_out_of_reach
