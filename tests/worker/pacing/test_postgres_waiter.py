"""Waiting with a server: how long, for what, and what is announced. Time and listener are scripted."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from typing import cast

import pytest

from rowcall.base.clock import Clock
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.database import Connection
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.workers import MARK_LISTENING, OPEN_WRITERS
from rowcall.store.statement import Query
from rowcall.wake import waiter_and_file_watch as waiter_module
from rowcall.wake.postgres_listener import Listener
from rowcall.wake.waiter_and_file_watch import Waker, Wakeup
from rowcall.worker.pacing.postgres_waiter import (
    BUSY_SECONDS,
    FIRST_DEAF_SECONDS,
    FIRST_DOUBT_SECONDS,
    FIRST_POLL_SECONDS,
    LAST_DEAF_SECONDS,
    LAST_DOUBT_SECONDS,
    LAST_POLL_SECONDS,
    LONGEST_SPREAD_SECONDS,
    MANY_RIVALS,
    NOISE_PAUSE_SECONDS,
    NOISY_WAKEUPS,
    POLL_GROWTH,
    PostgresWaiter,
)
from tests.descriptors import many_descriptors

LONG = 1000.0


class Script:
    """Time passes only in waits; a wait ends early where an answer is prepared for it."""

    def __init__(self, waker: Waker) -> None:
        self._waker = waker
        self.now = 1000.0
        self.waits: list[float] = []
        self.listens = True
        self.cannot_listen = False
        self.pause_seconds = self.spread_seconds = 0.0
        self.rivals = 0
        self.notified = False
        self.woken_next = False
        self.notified_next = False
        self.closed = False
        self.writers: set[str] = set()
        self.said: list[tuple[str, bool]] = []
        self.asked = 0
        self.reachable = True
        self.name = "one"

    # the module's time

    def timer(self) -> float:
        return self.now

    def is_readable(self, descriptor: int, seconds: float) -> bool:
        assert descriptor == self._waker.fileno()
        self.waits.append(seconds)
        self.notified = self.notified or self.notified_next
        woken = self.woken_next or self.notified_next
        self.woken_next = self.notified_next = False
        if not woken:
            self.now += max(0.0, seconds)
        return woken

    # the listener

    def pop_notified(self) -> bool:
        notified, self.notified = self.notified, False
        return notified

    def stop(self) -> None:
        self.closed = True

    def wait(self) -> None: ...

    # the dialect and its connection: a plan is a value here

    def ask(self, query: Query[object], *values: object) -> tuple[object, ...]:
        assert query in (MARK_LISTENING, OPEN_WRITERS)
        return values

    def write(self, plan: tuple[str, int]) -> None:
        if not self.reachable:
            raise StoreUnavailable("gone")
        worker, listening = plan
        self.said.append((worker, bool(listening)))

    def read(self, plan: tuple[object, ...]) -> set[str]:
        if not self.reachable:
            raise StoreUnavailable("gone")
        self.asked += 1
        return set(self.writers)


@pytest.fixture
def waker() -> Iterator[Waker]:
    waker = Waker()
    yield waker
    waker.close()


@pytest.fixture
def script(waker: Waker, monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script(waker)
    monkeypatch.setattr(waiter_module, "is_readable", script.is_readable)
    return script


def waiter_of(script: Script, waker: Waker) -> PostgresWaiter:
    return PostgresWaiter(
        cast(PostgresDialect, script),
        cast(Clock, script),
        cast(Connection, script),
        cast(Listener, script),
        waker,
        lambda: script.name,
        lambda: script.rivals,
    )


@pytest.fixture
def waiter(script: Script, waker: Waker) -> PostgresWaiter:
    return waiter_of(script, waker)


# --- what ends a wait -----------------------------------------------------------------------------


def test_the_time_is_over(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    assert waiter.wait(FIRST_POLL_SECONDS / 2) is Wakeup.TIMEOUT
    assert script.waits == [FIRST_POLL_SECONDS / 2]


def test_the_lanes_end_a_wait(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    script.woken_next = True
    assert waiter.wait(LONG) is Wakeup.WOKEN


def test_a_notification_ends_a_wait(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    script.notified_next = True
    assert waiter.wait(LONG) is Wakeup.NOTIFIED


def test_a_notification_that_came_before_the_wait(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    script.notified = True
    assert waiter.wait(LONG) is Wakeup.NOTIFIED
    assert script.waits == []


def test_a_notification_during_a_pause_is_kept(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    script.notified_next = True
    waiter.pause(LONG)
    assert waiter.wait(LONG) is Wakeup.NOTIFIED


def test_only_the_waker_ends_a_pause(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    waiter.pause(LONG)
    assert script.waits == [LONG]


def test_a_time_that_has_already_passed(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    assert waiter.wait(-1.0) is Wakeup.TIMEOUT


# --- the floor ------------------------------------------------------------------------------------


def test_polls_become_less_frequent(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    floors = [FIRST_POLL_SECONDS, POLL_GROWTH * FIRST_POLL_SECONDS]
    for floor in (*floors, LAST_POLL_SECONDS, LAST_POLL_SECONDS):
        assert waiter.wait(LONG) is Wakeup.CHANGED
        waiter.note_wakeup(useful=False)
        assert script.waits[-1] == floor
    assert LAST_POLL_SECONDS < POLL_GROWTH**2 * FIRST_POLL_SECONDS


def test_polls_are_frequent_again_after_work(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    for call in (waiter.mark_idle, lambda: waiter.note_wakeup(useful=True), waiter.mark_busy):
        for _ in range(3):
            waiter.wait(LONG)
        call()
        waiter.wait(LONG)
        assert script.waits[-1] == FIRST_POLL_SECONDS


def test_a_notification_does_not_change_the_polls(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    waiter.wait(LONG)
    script.woken_next = True
    waiter.wait(LONG)
    waiter.wait(LONG)
    assert script.waits == [FIRST_POLL_SECONDS, POLL_GROWTH * FIRST_POLL_SECONDS, POLL_GROWTH * FIRST_POLL_SECONDS]


def test_a_time_before_the_next_poll_comes_first(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    assert waiter.wait(FIRST_POLL_SECONDS) is Wakeup.TIMEOUT
    assert waiter.wait(FIRST_POLL_SECONDS * 1.01) is Wakeup.CHANGED


def test_without_a_listener_polls_are_more_frequent(script: Script, waiter: PostgresWaiter) -> None:
    script.listens = False
    waiter.mark_idle()
    assert script.said == []
    for _ in range(20):
        assert waiter.wait(LONG) is Wakeup.CHANGED
    assert script.waits[0] == FIRST_DEAF_SECONDS
    assert all(after == 2 * before for before, after in itertools.pairwise(script.waits[:4]))
    assert script.waits[-1] == LAST_DEAF_SECONDS < LAST_POLL_SECONDS


def test_a_worker_that_cannot_listen_logs_it_once(
    script: Script, waiter: PostgresWaiter, caplog: pytest.LogCaptureFixture
) -> None:
    script.listens = False
    for _ in range(3):
        waiter.wait(LONG)
    assert caplog.records == []
    script.cannot_listen = True
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            waiter.wait(LONG)
    (record,) = caplog.records
    assert "listen_url" in record.getMessage()


# --- saying that we listen ------------------------------------------------------------------------


def test_it_announces_once_that_it_listens(script: Script, waiter: PostgresWaiter) -> None:
    for _ in range(3):
        waiter.mark_idle()
        waiter.wait(LONG)
    assert script.said == [("one", True)]


def test_it_announces_it_again_under_a_new_name(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    script.name = "two"
    waiter.mark_idle()
    waiter.mark_idle()
    assert script.said == [("one", True), ("two", True)]


def test_it_announces_it_only_when_it_listens(script: Script, waiter: PostgresWaiter) -> None:
    script.listens = False
    waiter.mark_idle()
    assert script.said == []
    script.listens = True
    waiter.mark_idle()
    assert script.said == [("one", True)]


def test_a_failed_announcement_is_repeated_later(script: Script, waiter: PostgresWaiter) -> None:
    script.reachable = False
    with pytest.raises(StoreUnavailable):
        waiter.mark_idle()
    script.reachable = True
    waiter.mark_idle()
    assert script.said == [("one", True)]


def test_a_busy_worker_withdraws_its_announcement_after_a_while(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    waiter.mark_busy()
    script.now += BUSY_SECONDS * 0.9
    waiter.mark_busy()
    assert script.said == [("one", True)]
    script.now += BUSY_SECONDS * 0.2
    waiter.mark_busy()
    waiter.mark_busy()
    assert script.said == [("one", True), ("one", False)]
    waiter.mark_idle()
    assert script.said == [("one", True), ("one", False), ("one", True)]


def test_an_idle_moment_restarts_the_busy_time(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    for _ in range(5):
        waiter.mark_busy()
        script.now += BUSY_SECONDS * 2
        waiter.mark_idle()
    assert script.said == [("one", True)]


def test_a_worker_that_never_listened_withdraws_nothing(script: Script, waiter: PostgresWaiter) -> None:
    script.listens = False
    waiter.mark_idle()
    for _ in range(3):
        waiter.mark_busy()
        script.now += BUSY_SECONDS * 2
    assert script.said == []


def test_closing_closes_the_listener(script: Script, waiter: PostgresWaiter) -> None:
    waiter.close()
    assert script.closed


# --- doubt: transactions that may have notified no worker ---------------------------------------------


def test_open_transactions_are_checked_ever_less_often(script: Script, waiter: PostgresWaiter) -> None:
    script.writers = {"3/1"}
    waiter.mark_idle()
    for _ in range(60):
        assert waiter.wait(LONG) is Wakeup.NOTHING
    assert script.waits[0] == FIRST_DOUBT_SECONDS
    assert all(before <= after for before, after in itertools.pairwise(script.waits))
    assert script.waits[-1] == LAST_DOUBT_SECONDS


def test_a_short_transaction_is_noticed_soon(script: Script, waiter: PostgresWaiter) -> None:
    """At any age, the next question comes within a fraction of that age."""
    script.writers = {"3/1"}
    waiter.mark_idle()
    began = script.now
    while script.now - began < LAST_DOUBT_SECONDS:
        age = script.now - began
        waiter.wait(LONG)
        assert script.waits[-1] <= FIRST_DOUBT_SECONDS + age


def test_the_end_of_an_open_transaction_counts_as_a_notification(script: Script, waiter: PostgresWaiter) -> None:
    script.writers = {"3/1", "4/1"}
    waiter.mark_idle()
    assert waiter.wait(LONG) is Wakeup.NOTHING
    script.writers = {"4/1"}
    assert waiter.wait(LONG) is Wakeup.NOTIFIED
    assert waiter.wait(LONG) is Wakeup.NOTHING
    script.writers = set()
    assert waiter.wait(LONG) is Wakeup.NOTIFIED
    asked = script.asked
    assert waiter.wait(LONG) is Wakeup.CHANGED
    assert script.asked == asked


def test_later_transactions_know_that_we_listen(script: Script, waiter: PostgresWaiter) -> None:
    script.writers = {"3/1"}
    waiter.mark_idle()
    script.writers = {"3/1", "9/9"}
    assert waiter.wait(LONG) is Wakeup.NOTHING
    script.writers = {"9/9"}
    assert waiter.wait(LONG) is Wakeup.NOTIFIED
    assert waiter.wait(LONG) is Wakeup.CHANGED


def test_a_second_check_does_not_renew_the_doubt(script: Script, waiter: PostgresWaiter) -> None:
    script.writers = {"3/1"}
    waiter.mark_idle()
    script.writers = {"3/1", "9/9"}
    waiter.mark_idle()
    script.writers = {"9/9"}
    assert waiter.wait(LONG) is Wakeup.NOTIFIED
    assert waiter.wait(LONG) is Wakeup.CHANGED


def test_notifications_arrive_in_doubt(script: Script, waiter: PostgresWaiter) -> None:
    script.writers = {"3/1"}
    waiter.mark_idle()
    script.notified_next = True
    assert waiter.wait(LONG) is Wakeup.NOTIFIED
    script.woken_next = True
    assert waiter.wait(LONG) is Wakeup.WOKEN
    assert waiter.wait(FIRST_DOUBT_SECONDS / 2) is Wakeup.TIMEOUT
    assert waiter.wait(LONG) is Wakeup.NOTHING


def test_a_busy_worker_is_not_in_doubt(script: Script, waiter: PostgresWaiter) -> None:
    script.writers = {"3/1"}
    waiter.mark_idle()
    waiter.mark_busy()
    script.now += BUSY_SECONDS * 2
    waiter.mark_busy()
    asked = script.asked
    assert waiter.wait(LONG) is Wakeup.CHANGED
    assert script.asked == asked
    waiter.mark_idle()
    assert waiter.wait(LONG) is Wakeup.NOTHING
    assert script.waits[-1] == FIRST_DOUBT_SECONDS


def test_a_server_that_is_gone_leaves_the_doubt_as_it_was(script: Script, waiter: PostgresWaiter) -> None:
    script.writers = {"3/1"}
    waiter.mark_idle()
    script.reachable = False
    with pytest.raises(StoreUnavailable):
        waiter.wait(LONG)
    script.reachable = True
    script.writers = set()
    assert waiter.wait(LONG) is Wakeup.NOTIFIED


def test_doubt_survives_a_server_that_fails_after_the_announcement(script: Script, waiter: PostgresWaiter) -> None:
    """The announcement is written, but the open transactions were not read yet."""
    script.writers = {"3/1"}
    read = script.read

    def fails_once(plan: tuple[object, ...]) -> set[str]:
        script.read = read  # type: ignore[method-assign]
        raise StoreUnavailable("gone")

    script.read = fails_once  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        waiter.mark_idle()
    waiter.mark_idle()
    assert waiter.wait(LONG) is Wakeup.NOTHING
    script.writers = set()
    assert waiter.wait(LONG) is Wakeup.NOTIFIED


# --- noise: notifications for other workers ----------------------------------------------------------


def test_after_many_useless_notifications_several_count_as_one(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    for _ in range(NOISY_WAKEUPS - 1):
        waiter.note_wakeup(useful=False)
    assert script.pause_seconds == 0
    waiter.note_wakeup(useful=False)
    assert script.pause_seconds == NOISE_PAUSE_SECONDS
    waiter.note_wakeup(useful=True)
    assert script.pause_seconds == 0
    waiter.note_wakeup(useful=False)
    assert script.pause_seconds == 0


@pytest.mark.parametrize(
    ("rivals", "seconds"),
    [(0, 0), (MANY_RIVALS - 1, 0), (MANY_RIVALS, 0.02), (200, 0.2), (5000, LONGEST_SPREAD_SECONDS)],
)
def test_many_rivals_do_not_look_at_once(script: Script, waiter: PostgresWaiter, rivals: int, seconds: float) -> None:
    waiter.mark_idle()
    script.rivals = rivals
    for _ in range(NOISY_WAKEUPS):
        assert script.spread_seconds == 0
        waiter.note_wakeup(useful=False)
    assert script.spread_seconds == pytest.approx(seconds)
    waiter.note_wakeup(useful=True)
    assert script.spread_seconds == 0


def test_work_ends_the_noise(script: Script, waiter: PostgresWaiter) -> None:
    waiter.mark_idle()
    for _ in range(NOISY_WAKEUPS):
        waiter.note_wakeup(useful=False)
    waiter.mark_busy()
    assert script.pause_seconds == 0


# --- with a real waker ----------------------------------------------------------------------------


def test_many_open_files_are_no_obstacle() -> None:
    with many_descriptors():
        waker = Waker()
        waiter = waiter_of(Script(waker), waker)
        assert waker.fileno() > 1023
        waker.wake()
        assert waiter.wait(LONG) is Wakeup.WOKEN
        assert waiter.wait(0.0) is Wakeup.TIMEOUT
        waker.close()
