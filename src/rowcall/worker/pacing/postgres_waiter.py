"""Waiting for notifications of a PostgreSQL server: a commit of new jobs notifies the workers that listen.

A busy worker does not listen, so that commits under load pay nothing for notifications. A worker announces that it
listens before its last check for work. A transaction that was open at that moment may have decided not to notify, so
the worker watches those transactions until they end.
"""

from __future__ import annotations

from collections.abc import Callable

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.drivers.database import Connection
from rowcall.drivers.postgres.database import PostgresDatabase
from rowcall.queue import Queue
from rowcall.store.postgres.dialect import PostgresDialect
from rowcall.store.queries.workers import MARK_LISTENING, OPEN_WRITERS
from rowcall.wake.postgres_listener import Listener, ListenerWaiter
from rowcall.wake.waiter_and_file_watch import Waker, Wakeup
from rowcall.worker.registrar import Registrar

BUSY_SECONDS = 0.05
"""A worker that is busy for longer withdraws its announcement, which is a statement."""
FIRST_DOUBT_SECONDS, LAST_DOUBT_SECONDS, DOUBT_GROWTH = 0.002, 1.0, 1.25
"""How often to look at transactions that may not notify: most end in milliseconds, a few stay open."""
NOISY_WAKEUPS, NOISE_PAUSE_SECONDS = 20, 0.018
"""After this many notifications about jobs of other workers, treat several as one."""
MANY_RIVALS, SPREAD_SECONDS, LONGEST_SPREAD_SECONDS = 20, 0.001, 0.25
"""A commit notifies all idle workers. Where many serve the same queues, each waits up to so long for each of them: the
first is nearly as soon, and together they check at most 1,000 times a second, however many they are."""
FIRST_POLL_SECONDS, LAST_POLL_SECONDS, POLL_GROWTH = 1.0, 5.0, 3
"""How often to check for work even without a notification, as a hint may get lost."""
FIRST_DEAF_SECONDS, LAST_DEAF_SECONDS = 0.05, 1.0
"""How often to check where no notification can come."""


def postgres_waiter(queue: Queue, connection: Connection, waker: Waker, registrar: Registrar) -> PostgresWaiter:
    assert isinstance(queue.dialect, PostgresDialect)
    assert isinstance(queue.database, PostgresDatabase)
    database, dialect = queue.database, queue.dialect
    listener = Listener(database.connect_to_listen, dialect.channel, waker, queue.clock, is_left=database.is_left)
    listener.start()
    return PostgresWaiter(
        queue.dialect,
        queue.clock,
        connection,
        listener,
        waker,
        lambda: registrar.name,
        lambda: registrar.rivals,
    )


class PostgresWaiter:
    def __init__(
        self,
        dialect: PostgresDialect,
        clock: Clock,
        connection: Connection,
        listener: Listener,
        waker: Waker,
        worker: Callable[[], str],
        rivals: Callable[[], int],
    ) -> None:
        self._dialect = dialect
        self._timer = clock.timer
        self._connection = connection
        self._listener = listener
        self._waker = waker
        self._waiter = ListenerWaiter(listener, waker)
        self._worker = worker
        self._rivals = rivals
        self._announced = ""
        self._busy_since: float | None = None
        self._in_doubt: set[str] = set()
        self._doubt_seconds = FIRST_DOUBT_SECONDS
        self._poll_seconds = 0.0
        self._useless_wakeups = 0
        self._warned = False

    def mark_idle(self) -> None:
        """Announce that this worker listens, and remember the transactions that may not know it."""
        self._busy_since = None
        self._poll_seconds = 0.0
        if self._listener.listens and self._announced != self._worker():
            name = self._worker()
            self._connection.write(self._dialect.ask(MARK_LISTENING, name, 1))
            self._in_doubt = set(self._connection.read(self._dialect.ask(OPEN_WRITERS)))
            self._announced = name
            self._doubt_seconds = FIRST_DOUBT_SECONDS

    def mark_busy(self) -> None:
        """After a while, withdraw the announcement: commits need not notify this worker any more."""
        self.note_wakeup(useful=True)
        now = self._timer()
        if self._busy_since is None:
            self._busy_since = now
        elif self._announced and now - self._busy_since > BUSY_SECONDS:
            self._withdraw()

    def full_pause_seconds(self, seconds: float) -> float:
        """Without room for jobs no notification is needed, but short jobs are not worth a withdrawal."""
        if not self._announced:
            return seconds
        now = self._timer()
        self._busy_since = self._busy_since or now
        remaining = BUSY_SECONDS - (now - self._busy_since)
        if remaining <= 0:
            self._withdraw()
            return seconds
        return min(seconds, remaining)

    def _withdraw(self) -> None:
        name, self._announced = self._announced, ""
        self._in_doubt = set()
        self._connection.write(self._dialect.ask(MARK_LISTENING, name, 0))

    def note_wakeup(self, *, useful: bool) -> None:
        """After many notifications about jobs of other workers, treat several as one."""
        if useful:
            self._poll_seconds = 0.0
        self._useless_wakeups = 0 if useful else self._useless_wakeups + 1
        is_noisy, rivals = self._useless_wakeups >= NOISY_WAKEUPS, self._rivals()
        self._listener.pause_seconds = NOISE_PAUSE_SECONDS if is_noisy else 0.0
        spread = min(rivals * SPREAD_SECONDS, LONGEST_SPREAD_SECONDS)
        self._listener.spread_seconds = spread if is_noisy and rivals >= MANY_RIVALS else 0.0

    def pause(self, seconds: float) -> None:
        self._waker.wait(seconds)

    def wait(self, seconds: float) -> Wakeup:
        poll = self._next_poll_seconds()
        wakeup = self._waiter.wait(min([seconds, poll, *([self._doubt_seconds] if self._in_doubt else [])]))
        if wakeup is not Wakeup.TIMEOUT:
            return wakeup
        if self._in_doubt and self._doubt_seconds <= min(seconds, poll):
            return self._check_doubt()
        if poll < seconds:
            self._poll_seconds = poll
            return Wakeup.CHANGED
        return Wakeup.TIMEOUT

    def close(self) -> None:
        self._waiter.close()

    def _check_doubt(self) -> Wakeup:
        """Check whether one of the transactions in doubt has ended."""
        remaining = self._in_doubt.intersection(self._connection.read(self._dialect.ask(OPEN_WRITERS)))
        self._doubt_seconds = min(self._doubt_seconds * DOUBT_GROWTH, LAST_DOUBT_SECONDS)
        any_ended = remaining != self._in_doubt
        self._in_doubt = remaining
        return Wakeup.NOTIFIED if any_ended else Wakeup.NOTHING

    def _next_poll_seconds(self) -> float:
        if self._listener.listens:
            return min(max(FIRST_POLL_SECONDS, self._poll_seconds * POLL_GROWTH), LAST_POLL_SECONDS)
        if self._listener.cannot_listen and not self._warned:
            self._warned = True
            logger.warning(
                "cannot receive notifications through a connection pooler: this worker checks for new jobs at least"
                " every %g s; pass Rowcall(listen_url=…) with a URL that leads to the server itself",
                LAST_DEAF_SECONDS,
            )
        return min(max(FIRST_DEAF_SECONDS, self._poll_seconds * 2), LAST_DEAF_SECONDS)
