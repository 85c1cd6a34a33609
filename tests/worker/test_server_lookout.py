"""Waiting beside a server: how long, what for, and who is told that we do. Time and listener follow a script."""

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
from rowcall.wake.file_watch import Bell
from rowcall.wake.notification import News
from rowcall.wake.postgres_listener import Listener
from rowcall.worker.loop import postgres_waiter
from rowcall.worker.loop.postgres_waiter import (
    BUSY_SECONDS,
    FIRST_DEAF_SECONDS,
    FIRST_DOUBT_SECONDS,
    FIRST_FLOOR_SECONDS,
    FLOOR_GROWTH,
    LAST_DEAF_SECONDS,
    LAST_DOUBT_SECONDS,
    LAST_FLOOR_SECONDS,
    NOISE_PAUSE_SECONDS,
    NOISY_WORDS,
    ServerLookout,
)
from tests.descriptors import many_descriptors

LONG = 1000.0


class Script:
    """Time passes only in waits; a wait ends early where an answer is prepared for it."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self.now = 1000.0
        self.waits: list[float] = []
        self.listens = True
        self.deaf = False
        self.pause_seconds = 0.0
        self.told = False
        self.rings_next = False
        self.told_next = False
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
        assert descriptor == self._bell.fileno()
        self.waits.append(seconds)
        self.told = self.told or self.told_next
        rung = self.rings_next or self.told_next
        self.rings_next = self.told_next = False
        if not rung:
            self.now += max(0.0, seconds)
        return rung

    # the listener

    def take(self) -> bool:
        told, self.told = self.told, False
        return told

    def close(self) -> None:
        self.closed = True

    # the dialect and its connection: a plan is a value here

    def mark_listening(self, worker: str, listening: bool) -> tuple[str, bool]:
        return worker, listening

    def open_writers(self) -> None:
        return None

    def write(self, plan: tuple[str, bool]) -> None:
        if not self.reachable:
            raise StoreUnavailable("gone")
        self.said.append(plan)

    def read(self, plan: None) -> set[str]:
        if not self.reachable:
            raise StoreUnavailable("gone")
        self.asked += 1
        return set(self.writers)


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    yield bell
    bell.close()


@pytest.fixture
def script(bell: Bell, monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script(bell)
    monkeypatch.setattr(postgres_waiter, "is_readable", script.is_readable)
    return script


def lookout_of(script: Script, bell: Bell) -> ServerLookout:
    return ServerLookout(
        cast(PostgresDialect, script),
        cast(Clock, script),
        cast(Connection, script),
        cast(Listener, script),
        bell,
        lambda: script.name,
    )


@pytest.fixture
def looks(script: Script, bell: Bell) -> ServerLookout:
    return lookout_of(script, bell)


# --- what ends a wait -----------------------------------------------------------------------------


def test_the_time_is_over(script: Script, looks: ServerLookout) -> None:
    looks.note()
    assert looks.wait(FIRST_FLOOR_SECONDS / 2) is News.TIME
    assert script.waits == [FIRST_FLOOR_SECONDS / 2]


def test_a_word_from_the_lanes(script: Script, looks: ServerLookout) -> None:
    looks.note()
    script.rings_next = True
    assert looks.wait(LONG) is News.RUNG


def test_a_word_from_the_server(script: Script, looks: ServerLookout) -> None:
    looks.note()
    script.told_next = True
    assert looks.wait(LONG) is News.TOLD


def test_a_word_that_came_before_the_wait(script: Script, looks: ServerLookout) -> None:
    looks.note()
    script.told = True
    assert looks.wait(LONG) is News.TOLD
    assert script.waits == []


def test_a_word_that_came_during_a_pause_is_kept(script: Script, looks: ServerLookout) -> None:
    looks.note()
    script.told_next = True
    looks.pause(LONG)
    assert looks.wait(LONG) is News.TOLD


def test_a_pause_is_ended_by_the_bell_alone(script: Script, looks: ServerLookout) -> None:
    looks.note()
    looks.pause(LONG)
    assert script.waits == [LONG]


def test_a_time_that_is_over_already(script: Script, looks: ServerLookout) -> None:
    looks.note()
    assert looks.wait(-1.0) is News.TIME


# --- the floor ------------------------------------------------------------------------------------


def test_the_floor_sinks(script: Script, looks: ServerLookout) -> None:
    looks.note()
    floors = [FIRST_FLOOR_SECONDS, FLOOR_GROWTH * FIRST_FLOOR_SECONDS]
    for floor in (*floors, LAST_FLOOR_SECONDS, LAST_FLOOR_SECONDS):
        assert looks.wait(LONG) is News.CHANGED
        looks.in_vain()
        assert script.waits[-1] == floor
    assert LAST_FLOOR_SECONDS < FLOOR_GROWTH**2 * FIRST_FLOOR_SECONDS


def test_the_floor_is_high_again_after_work(script: Script, looks: ServerLookout) -> None:
    looks.note()
    for call in (looks.note, looks.worth_it, looks.working):
        for _ in range(3):
            looks.wait(LONG)
        call()
        looks.wait(LONG)
        assert script.waits[-1] == FIRST_FLOOR_SECONDS


def test_a_word_does_not_move_the_floor(script: Script, looks: ServerLookout) -> None:
    looks.note()
    looks.wait(LONG)
    script.rings_next = True
    looks.wait(LONG)
    looks.wait(LONG)
    assert script.waits == [FIRST_FLOOR_SECONDS, FLOOR_GROWTH * FIRST_FLOOR_SECONDS, FLOOR_GROWTH * FIRST_FLOOR_SECONDS]


def test_a_time_below_the_floor_comes_first(script: Script, looks: ServerLookout) -> None:
    looks.note()
    assert looks.wait(FIRST_FLOOR_SECONDS) is News.TIME
    assert looks.wait(FIRST_FLOOR_SECONDS * 1.01) is News.CHANGED


def test_without_a_listener_the_floor_is_closer(script: Script, looks: ServerLookout) -> None:
    script.listens = False
    looks.note()
    assert script.said == []
    for _ in range(20):
        assert looks.wait(LONG) is News.CHANGED
    assert script.waits[0] == FIRST_DEAF_SECONDS
    assert all(after == 2 * before for before, after in itertools.pairwise(script.waits[:4]))
    assert script.waits[-1] == LAST_DEAF_SECONDS < LAST_FLOOR_SECONDS


def test_who_cannot_listen_says_so_once(script: Script, looks: ServerLookout, caplog: pytest.LogCaptureFixture) -> None:
    script.listens = False
    for _ in range(3):
        looks.wait(LONG)
    assert caplog.records == []
    script.deaf = True
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            looks.wait(LONG)
    (record,) = caplog.records
    assert "listen_url" in record.getMessage()


# --- saying that we listen ------------------------------------------------------------------------


def test_it_says_that_it_listens_once(script: Script, looks: ServerLookout) -> None:
    for _ in range(3):
        looks.note()
        looks.wait(LONG)
    assert script.said == [("one", True)]


def test_it_says_so_again_under_a_new_name(script: Script, looks: ServerLookout) -> None:
    looks.note()
    script.name = "two"
    looks.note()
    looks.note()
    assert script.said == [("one", True), ("two", True)]


def test_it_says_so_only_when_it_does(script: Script, looks: ServerLookout) -> None:
    script.listens = False
    looks.note()
    assert script.said == []
    script.listens = True
    looks.note()
    assert script.said == [("one", True)]


def test_what_could_not_be_said_is_said_later(script: Script, looks: ServerLookout) -> None:
    script.reachable = False
    with pytest.raises(StoreUnavailable):
        looks.note()
    script.reachable = True
    looks.note()
    assert script.said == [("one", True)]


def test_who_is_busy_for_a_while_takes_it_back(script: Script, looks: ServerLookout) -> None:
    looks.note()
    looks.working()
    script.now += BUSY_SECONDS * 0.9
    looks.working()
    assert script.said == [("one", True)]
    script.now += BUSY_SECONDS * 0.2
    looks.working()
    looks.working()
    assert script.said == [("one", True), ("one", False)]
    looks.note()
    assert script.said == [("one", True), ("one", False), ("one", True)]


def test_a_rest_in_between_ends_being_busy(script: Script, looks: ServerLookout) -> None:
    looks.note()
    for _ in range(5):
        looks.working()
        script.now += BUSY_SECONDS * 2
        looks.note()
    assert script.said == [("one", True)]


def test_who_never_listened_takes_nothing_back(script: Script, looks: ServerLookout) -> None:
    script.listens = False
    looks.note()
    for _ in range(3):
        looks.working()
        script.now += BUSY_SECONDS * 2
    assert script.said == []


def test_closing_closes_the_listener(script: Script, looks: ServerLookout) -> None:
    looks.close()
    assert script.closed


# --- doubt: transactions that may have told nobody ------------------------------------------------


def test_transactions_that_were_open_are_asked_for_ever_less_often(script: Script, looks: ServerLookout) -> None:
    script.writers = {"3/1"}
    looks.note()
    for _ in range(60):
        assert looks.wait(LONG) is News.NOTHING
    assert script.waits[0] == FIRST_DOUBT_SECONDS
    assert all(before <= after for before, after in itertools.pairwise(script.waits))
    assert script.waits[-1] == LAST_DOUBT_SECONDS


def test_a_short_transaction_is_noticed_soon(script: Script, looks: ServerLookout) -> None:
    """At any age, the next question comes within a fraction of that age."""
    script.writers = {"3/1"}
    looks.note()
    began = script.now
    while script.now - began < LAST_DOUBT_SECONDS:
        age = script.now - began
        looks.wait(LONG)
        assert script.waits[-1] <= FIRST_DOUBT_SECONDS + age


def test_the_end_of_one_is_news(script: Script, looks: ServerLookout) -> None:
    script.writers = {"3/1", "4/1"}
    looks.note()
    assert looks.wait(LONG) is News.NOTHING
    script.writers = {"4/1"}
    assert looks.wait(LONG) is News.TOLD
    assert looks.wait(LONG) is News.NOTHING
    script.writers = set()
    assert looks.wait(LONG) is News.TOLD
    asked = script.asked
    assert looks.wait(LONG) is News.CHANGED
    assert script.asked == asked


def test_those_who_came_later_know_that_we_listen(script: Script, looks: ServerLookout) -> None:
    script.writers = {"3/1"}
    looks.note()
    script.writers = {"3/1", "9/9"}
    assert looks.wait(LONG) is News.NOTHING
    script.writers = {"9/9"}
    assert looks.wait(LONG) is News.TOLD
    assert looks.wait(LONG) is News.CHANGED


def test_doubt_is_not_renewed_by_a_second_look(script: Script, looks: ServerLookout) -> None:
    script.writers = {"3/1"}
    looks.note()
    script.writers = {"3/1", "9/9"}
    looks.note()
    script.writers = {"9/9"}
    assert looks.wait(LONG) is News.TOLD
    assert looks.wait(LONG) is News.CHANGED


def test_words_come_through_in_doubt(script: Script, looks: ServerLookout) -> None:
    script.writers = {"3/1"}
    looks.note()
    script.told_next = True
    assert looks.wait(LONG) is News.TOLD
    script.rings_next = True
    assert looks.wait(LONG) is News.RUNG
    assert looks.wait(FIRST_DOUBT_SECONDS / 2) is News.TIME
    assert looks.wait(LONG) is News.NOTHING


def test_who_is_busy_is_not_in_doubt(script: Script, looks: ServerLookout) -> None:
    script.writers = {"3/1"}
    looks.note()
    looks.working()
    script.now += BUSY_SECONDS * 2
    looks.working()
    asked = script.asked
    assert looks.wait(LONG) is News.CHANGED
    assert script.asked == asked
    looks.note()
    assert looks.wait(LONG) is News.NOTHING
    assert script.waits[-1] == FIRST_DOUBT_SECONDS


def test_a_server_that_is_gone_leaves_the_doubt_as_it_was(script: Script, looks: ServerLookout) -> None:
    script.writers = {"3/1"}
    looks.note()
    script.reachable = False
    with pytest.raises(StoreUnavailable):
        looks.wait(LONG)
    script.reachable = True
    script.writers = set()
    assert looks.wait(LONG) is News.TOLD


def test_doubt_survives_a_server_that_goes_between_saying_and_asking(script: Script, looks: ServerLookout) -> None:
    """What was said holds, but nobody has asked yet who may not have heard it."""
    script.writers = {"3/1"}
    read = script.read

    def fails_once(plan: None) -> set[str]:
        script.read = read  # type: ignore[method-assign]
        raise StoreUnavailable("gone")

    script.read = fails_once  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        looks.note()
    looks.note()
    assert looks.wait(LONG) is News.NOTHING
    script.writers = set()
    assert looks.wait(LONG) is News.TOLD


# --- noise: told of what is not for us -----------------------------------------------------------


def test_who_is_told_much_in_vain_hears_several_words_as_one(script: Script, looks: ServerLookout) -> None:
    looks.note()
    for _ in range(NOISY_WORDS - 1):
        looks.in_vain()
    assert script.pause_seconds == 0
    looks.in_vain()
    assert script.pause_seconds == NOISE_PAUSE_SECONDS
    looks.worth_it()
    assert script.pause_seconds == 0
    looks.in_vain()
    assert script.pause_seconds == 0


def test_work_ends_the_noise(script: Script, looks: ServerLookout) -> None:
    looks.note()
    for _ in range(NOISY_WORDS):
        looks.in_vain()
    looks.working()
    assert script.pause_seconds == 0


# --- with a real bell ----------------------------------------------------------------------------


def test_many_open_files_are_no_obstacle() -> None:
    with many_descriptors():
        bell = Bell()
        looks = lookout_of(Script(bell), bell)
        assert bell.fileno() > 1023
        bell.ring()
        assert looks.wait(LONG) is News.RUNG
        assert looks.wait(0.0) is News.TIME
        bell.close()
