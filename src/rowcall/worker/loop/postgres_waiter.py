"""Waiting beside a PostgreSQL server: whoever commits jobs tells those who say that they listen.

Nobody tells a worker that is busy, so that commits under load pay nothing for it. A worker says that it listens before
it looks for the last time. Whoever was writing at that moment may have decided to tell nobody; so the transactions that
were open then are watched until they are over.
"""

from __future__ import annotations

from collections.abc import Callable

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.drivers.database import Connection
from rowcall.drivers.postgres.database import PostgresDatabase
from rowcall.queue import Queue
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.wake.file_watch import Bell, is_readable
from rowcall.wake.notification import News
from rowcall.wake.postgres_listener import Listener
from rowcall.worker.registrar import Registrar

BUSY_SECONDS = 0.05
FIRST_DOUBT_SECONDS, LAST_DOUBT_SECONDS, DOUBT_GROWTH = 0.002, 1.0, 1.25
NOISY_WORDS, NOISE_PAUSE_SECONDS = 20, 0.018
# the floor beneath the hints: how often to look all the same
FIRST_FLOOR_SECONDS, LAST_FLOOR_SECONDS, FLOOR_GROWTH = 1.0, 5.0, 3
FIRST_DEAF_SECONDS, LAST_DEAF_SECONDS = 0.05, 1.0


def server_lookout(core: Queue, connection: Connection, bell: Bell, registrar: Registrar) -> ServerLookout:
    assert isinstance(core.dialect, PostgresDialect)
    assert isinstance(core.database, PostgresDatabase)
    listener = Listener(core.database.connect_to_listen, core.dialect.channel, bell)
    return ServerLookout(core.dialect, core.clock, connection, listener, bell, lambda: registrar.name)


class ServerLookout:
    def __init__(
        self,
        dialect: PostgresDialect,
        clock: Clock,
        connection: Connection,
        listener: Listener,
        bell: Bell,
        worker: Callable[[], str],
    ) -> None:
        self._dialect = dialect
        self._timer = clock.timer
        self._connection = connection
        self._listener = listener
        self._bell = bell
        self._worker = worker
        self._announced = ""
        self._busy_since: float | None = None
        self._in_doubt: set[str] = set()
        self._doubt_seconds = FIRST_DOUBT_SECONDS
        self._floor_seconds = 0.0
        self._vain_words = 0
        self._told_deaf = False

    def note(self) -> None:
        """Say that we listen, and remember who may not have known."""
        self._busy_since = None
        self._floor_seconds = 0.0
        if self._listener.listens and self._announced != self._worker():
            name = self._worker()
            self._connection.write(self._dialect.mark_listening(name, True))
            self._in_doubt = self._connection.read(self._dialect.open_writers())
            self._announced = name
            self._doubt_seconds = FIRST_DOUBT_SECONDS

    def working(self) -> None:
        """Busy for a while: those who commit need not tell us any more."""
        self.worth_it()
        now = self._timer()
        if self._busy_since is None:
            self._busy_since = now
        elif self._announced and now - self._busy_since > BUSY_SECONDS:
            self._fall_silent()

    def until_full(self, seconds: float) -> float:
        """With no room for more nobody need tell us; but short jobs are not worth the announcements."""
        if not self._announced:
            return seconds
        now = self._timer()
        self._busy_since = self._busy_since or now
        remaining = BUSY_SECONDS - (now - self._busy_since)
        if remaining <= 0:
            self._fall_silent()
            return seconds
        return min(seconds, remaining)

    def _fall_silent(self) -> None:
        name, self._announced = self._announced, ""
        self._in_doubt = set()
        self._connection.write(self._dialect.mark_listening(name, False))

    def in_vain(self) -> None:
        """Told of jobs that others take, or of none that are ours: then several words are one."""
        self._vain_words += 1
        if self._vain_words >= NOISY_WORDS:
            self._listener.pause_seconds = NOISE_PAUSE_SECONDS

    def worth_it(self) -> None:
        self._floor_seconds = 0.0
        self._vain_words = 0
        self._listener.pause_seconds = 0.0

    def pause(self, seconds: float) -> None:
        self._wait_for_bell(seconds)

    def wait(self, seconds: float) -> News:
        if self._listener.take():
            return News.TOLD
        floor = self._next_floor()
        rung = self._wait_for_bell(min([seconds, floor, *([self._doubt_seconds] if self._in_doubt else [])]))
        if self._listener.take():
            return News.TOLD
        if rung:
            return News.RUNG
        if self._in_doubt and self._doubt_seconds <= min(seconds, floor):
            return self._ask_again()
        if floor < seconds:
            self._floor_seconds = floor
            return News.CHANGED
        return News.TIME

    def close(self) -> None:
        self._listener.close()

    def _ask_again(self) -> News:
        """Whether those who may not have known are done."""
        remaining = self._in_doubt & self._connection.read(self._dialect.open_writers())
        self._doubt_seconds = min(self._doubt_seconds * DOUBT_GROWTH, LAST_DOUBT_SECONDS)
        is_news = remaining != self._in_doubt
        self._in_doubt = remaining
        return News.TOLD if is_news else News.NOTHING

    def _next_floor(self) -> float:
        if self._listener.listens:
            return min(max(FIRST_FLOOR_SECONDS, self._floor_seconds * FLOOR_GROWTH), LAST_FLOOR_SECONDS)
        if self._listener.deaf and not self._told_deaf:
            self._told_deaf = True
            logger.warning(
                "a connection pooler is in between, so nobody can tell this worker of new jobs: it looks for them"
                " at least every %g s. Rowcall(listen_url=…) with a URL that leads to the server itself cures that",
                LAST_DEAF_SECONDS,
            )
        return min(max(FIRST_DEAF_SECONDS, self._floor_seconds * 2), LAST_DEAF_SECONDS)

    def _wait_for_bell(self, seconds: float) -> bool:
        rung = is_readable(self._bell.fileno(), seconds)
        if rung:
            self._bell.silence()
        return rung
