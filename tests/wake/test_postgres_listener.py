"""The thread that listens to a PostgreSQL server, and listens again after every cut."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.domain.config import Config, Server
from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.postgres.connection import connect
from rowcall.drivers.postgres.database import PostgresDatabase
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import database_of
from rowcall.wake import postgres_listener
from rowcall.wake.postgres_listener import Listener
from rowcall.wake.waiter_and_file_watch import Waker
from tests.connected import Connection, connected
from tests.descriptors import many_descriptors, open_descriptors
from tests.pgbouncer import PgBouncer

T = TypeVar("T")

CHANNEL = "work"
SOON_SECONDS = 5.0  # a connection is given up after 10


@pytest.fixture
def nothing_of_earlier_tests() -> None:
    """For tests that count descriptors: what earlier ones left to close would be missing later."""
    eventually(lambda: listeners() == [])
    gc.collect()
    gc.freeze()  # the next collection does not go through all of this again


@pytest.fixture
def waker() -> Iterator[Waker]:
    waker = Waker()
    yield waker
    waker.close()


class Connections:
    """All that a listener has opened."""

    def __init__(self, url: str) -> None:
        self._config = Config(server=Server(url=url))
        self._url = url
        self.opened: list[Connection] = []

    def __call__(self) -> Connection:
        self.opened.append(connect(self._url, self._config))
        return self.opened[-1]


def stop(listener: Listener) -> None:
    listener.stop()
    listener.wait()


@contextmanager
def listening(connect: postgres_listener.Connect, waker: Waker, channel: str = CHANNEL) -> Iterator[Listener]:
    listener = Listener(connect, channel, waker, SystemClock())
    listener.start()
    try:
        yield listener
    finally:
        stop(listener)


@contextmanager
def hearing(connect: postgres_listener.Connect, waker: Waker, channel: str = CHANNEL) -> Iterator[Listener]:
    """A listener that is there, and has said so."""
    with listening(connect, waker, channel) as listener:
        eventually(listener.pop_notified, message="a listener")
        waker.clear()
        yield listener


def say(url: str, channel: str = CHANNEL, word: str = "") -> None:
    with connected(url) as mine:
        mine.execute("select pg_notify(%s, %s)", [channel, word])


def rings(waker: Waker) -> bool:
    try:
        return bool(os.read(waker.fileno(), 1))
    except BlockingIOError:
        return False


def listeners() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rowcall-listener"]


def in_time(call: Callable[[], None], within: float = SOON_SECONDS) -> None:
    """Call it in a separate thread, which must end soon."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    eventually(lambda: not thread.is_alive(), within=within, message="the end of the call")


# --- hearing --------------------------------------------------------------------------------------


def test_a_notification_wakes_the_waiter(postgres_url: str, waker: Waker) -> None:
    with hearing(Connections(postgres_url), waker) as listener:
        assert listener.listens
        assert not listener.cannot_listen
        assert not listener.pop_notified()
        for _ in range(3):
            say(postgres_url)
            eventually(listener.pop_notified)
            assert not listener.pop_notified()
            assert rings(waker)


def test_it_wakes_the_waiter_when_it_starts_to_listen(postgres_url: str, waker: Waker) -> None:
    """Whatever was said before that was not heard."""
    say(postgres_url)
    with listening(Connections(postgres_url), waker) as listener:
        eventually(lambda: rings(waker))
        assert listener.listens
        assert listener.pop_notified()
        assert not listener.pop_notified()


def test_many_notifications_are_one_wake_up(postgres_url: str, waker: Waker) -> None:
    with hearing(Connections(postgres_url), waker) as listener, connected(postgres_url) as mine:
        mine.execute("select pg_notify(%s, number::text) from generate_series(1, 5000) as number", [CHANNEL])
        eventually(listener.pop_notified)
        say(postgres_url)
        eventually(listener.pop_notified)


@pytest.mark.parametrize("channel", ["work", "Mixed Case", "x" * 63])
def test_other_channels_are_not_heard(postgres_url: str, waker: Waker, channel: str) -> None:
    with hearing(Connections(postgres_url), waker, channel) as listener:
        say(postgres_url, "other")
        say(postgres_url, "Work")
        with hearing(Connections(postgres_url), waker, "other"):  # a notification would have arrived before this
            assert not listener.pop_notified()
        say(postgres_url, channel)
        eventually(listener.pop_notified)


class Extreme(SystemClock):
    """Draws the least or the greatest number."""

    drawn = 0.0

    def chance(self) -> float:
        return self.drawn


def test_a_notification_is_spread_by_a_random_time(postgres_url: str, waker: Waker) -> None:
    """All that came by then are one wake-up, and the end does not wait for it."""
    clock = Extreme()
    listener = Listener(Connections(postgres_url), CHANNEL, waker, clock)
    listener.start()
    eventually(listener.pop_notified)
    listener.spread_seconds = 3600.0
    say(postgres_url)
    eventually(listener.pop_notified, message="a wake-up at once: the number is 0")
    clock.drawn = 1.0
    say(postgres_url)
    in_time(lambda: stop(listener))
    eventually(lambda: listeners() == [])
    assert not listener.pop_notified()


# --- cuts -----------------------------------------------------------------------------------------


def test_it_listens_again_after_its_connection_was_cut(postgres_url: str, waker: Waker) -> None:
    connections = Connections(postgres_url)
    with hearing(connections, waker) as listener:
        for times in range(1, 4):
            with connected(postgres_url) as mine:
                mine.execute("select pg_terminate_backend(%s)", [connections.opened[-1].info.backend_pid])
            eventually(listener.pop_notified, message="the word that it listens again")
            assert listener.listens
            assert len(connections.opened) == times + 1
            assert rings(waker)
            waker.clear()
            say(postgres_url)
            eventually(listener.pop_notified)
    assert all(connection.closed for connection in connections.opened)


def test_it_listens_again_after_the_server_was_away(private_postgres: PostgresServer, waker: Waker) -> None:
    connections = Connections(private_postgres.url())
    with hearing(connections, waker) as listener:
        private_postgres.stop()
        eventually(lambda: not listener.listens)
        assert not listener.pop_notified()
        private_postgres.start()
        eventually(listener.pop_notified)
        say(private_postgres.url())
        eventually(listener.pop_notified)
        private_postgres.restart("immediate")
        eventually(lambda: len(connections.opened) == 3 and listener.listens)
        eventually(listener.pop_notified)


def test_it_starts_before_the_server_does(private_postgres: PostgresServer, waker: Waker) -> None:
    private_postgres.stop()
    with listening(Connections(private_postgres.url()), waker) as listener:
        assert not listener.listens
        private_postgres.start()
        eventually(listener.pop_notified)
        assert listener.listens


def test_pauses_between_tries_grow_and_are_forgotten(
    postgres_url: str, waker: Waker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, failures = 0.005, 7
    monkeypatch.setattr(postgres_listener, "FIRST_PAUSE_SECONDS", first)
    monkeypatch.setattr(postgres_listener, "LAST_PAUSE_SECONDS", 1000.0)
    connections = Connections(postgres_url)
    tried_at: list[float] = []

    def sometimes() -> Connection:
        tried_at.append(time.monotonic())
        if len(tried_at) % (failures + 1):
            raise StoreUnavailable("gone")
        return connections()

    with hearing(sometimes, waker) as listener:
        gaps = [after - before for before, after in itertools.pairwise(tried_at)]
        assert all(gap >= 0.5 * first * 2**times for times, gap in enumerate(gaps))
        with connected(postgres_url) as mine:
            mine.execute("select pg_terminate_backend(%s)", [connections.opened[-1].info.backend_pid])
        eventually(listener.pop_notified, message="an early try")  # else it would take longer than the test waits


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nothing_of_earlier_tests")
def test_nothing_is_left_when_it_stops_while_it_waits(postgres_url: str, waker: Waker) -> None:
    connections, before = Connections(postgres_url), open_descriptors()
    with hearing(connections, waker):
        assert len(listeners()) == 1
        assert len(open_descriptors()) > len(before)
    assert listeners() == []
    assert connections.opened[0].closed
    assert open_descriptors() == before


@pytest.mark.usefixtures("nothing_of_earlier_tests")
def test_nothing_is_left_when_it_stops_between_two_tries(waker: Waker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_listener, "FIRST_PAUSE_SECONDS", 1000.0)
    tried = threading.Event()
    before = open_descriptors()

    def never() -> Connection:
        tried.set()
        raise StoreUnavailable("gone")

    listener = Listener(never, CHANNEL, waker, SystemClock())
    listener.start()
    assert tried.wait(20)
    in_time(lambda: stop(listener))
    assert listeners() == []
    assert open_descriptors() == before


@pytest.mark.usefixtures("nothing_of_earlier_tests")
def test_starting_and_stopping_twice_does_nothing_more(postgres_url: str, waker: Waker) -> None:
    before, connections = open_descriptors(), Connections(postgres_url)
    listener = Listener(connections, CHANNEL, waker, SystemClock())
    stop(listener)
    for _ in range(2):
        listener.start()
    eventually(listener.pop_notified)
    for _ in range(2):
        stop(listener)
    assert len(connections.opened) == 1
    assert open_descriptors() == before


@pytest.mark.usefixtures("nothing_of_earlier_tests")
def test_nothing_is_left_where_a_handler_has_forked(postgres_url: str, waker: Waker) -> None:
    """The child has a copy of all that was open, and lives on."""
    before = open_descriptors()
    with hearing(Connections(postgres_url), waker):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        assert listeners() == []
        assert open_descriptors() == before
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.fixture
def silent_server() -> Iterator[tuple[str, Callable[[], None]]]:
    """Accepts connections and never answers; the second value waits for one."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        guests: list[socket.socket] = []
        yield f"postgresql://127.0.0.1:{server.getsockname()[1]}/nothing", lambda: guests.append(server.accept()[0])
        for guest in guests:
            guest.close()


def test_stopping_while_it_connects_does_not_wait_for_that(
    silent_server: tuple[str, Callable[[], None]], waker: Waker
) -> None:
    url, knocked = silent_server
    listener = Listener(Connections(url), CHANNEL, waker, SystemClock())
    listener.start()
    knocked()
    in_time(lambda: stop(listener))
    assert not listener.listens


@pytest.mark.usefixtures("nothing_of_earlier_tests")
def test_what_still_connects_when_it_is_stopped_is_closed_at_last(postgres_url: str, waker: Waker) -> None:
    """Descriptors may belong to other files by then."""
    connections, before = Connections(postgres_url), open_descriptors()
    connecting, go_on = threading.Event(), threading.Event()

    def slowly() -> Connection:
        connecting.set()
        assert go_on.wait(20)
        return connections()

    listener = Listener(slowly, CHANNEL, waker, SystemClock())
    listener.start()
    assert connecting.wait(20)
    in_time(lambda: stop(listener))
    go_on.set()
    eventually(lambda: listeners() == [])
    assert all(connection.closed for connection in connections.opened)
    assert open_descriptors() == before


# --- deaf -----------------------------------------------------------------------------------------


def database_at(url: str, listen_url: str | None = None) -> PostgresDatabase:
    with Rowcall(url, listen_url=listen_url) as jobs:
        database = queue_of(jobs).database
        assert isinstance(database, PostgresDatabase)
        return database


@pytest.mark.usefixtures("nothing_of_earlier_tests")
def test_behind_a_pooler_it_cannot_listen(postgres_url: str, pgbouncer: PgBouncer, waker: Waker) -> None:
    before = open_descriptors()
    listener = Listener(
        database_at(pgbouncer.url(database_of(postgres_url))).connect_to_listen, CHANNEL, waker, SystemClock()
    )
    listener.start()
    eventually(lambda: listener.cannot_listen)
    assert not listener.listens
    assert not listener.pop_notified()
    eventually(lambda: listeners() == [])
    stop(listener)
    assert open_descriptors() == before


def test_a_listen_url_leads_past_the_pooler(postgres_url: str, pgbouncer: PgBouncer, waker: Waker) -> None:
    database = database_at(pgbouncer.url(database_of(postgres_url)), postgres_url)
    with hearing(database.connect_to_listen, waker) as listener:
        assert not listener.cannot_listen
        say(postgres_url)
        eventually(listener.pop_notified)


def test_many_open_files_are_no_obstacle(postgres_url: str, waker: Waker) -> None:
    with many_descriptors(), hearing(Connections(postgres_url), waker) as listener:
        say(postgres_url)
        eventually(listener.pop_notified)
