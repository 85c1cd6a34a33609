"""Notifications that a job may have ended, for the thread that waits for the end of jobs."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Collection
from contextlib import closing
from typing import Protocol

from rowcall.base.clock import Clock
from rowcall.drivers.sqlite.database import SqliteDatabase
from rowcall.queue import Queue
from rowcall.store.results.queries import REGISTER_WAITER, REMOVE_WAITER
from rowcall.wake.sqlite_waiter import SqliteWaiter
from rowcall.wake.waiter import Wakeup
from rowcall.wake.waker import Waker

ANNOUNCE_AGAIN_SECONDS = 20.0


class EndNotifications(Protocol):
    """Used by one thread."""

    def announce(self, joined: Collection[int], left: Collection[int], awaited: Collection[int]) -> None:
        """Publish which jobs are waited for, where that has to be known."""

    def wait(self, seconds: float) -> Collection[int] | None:
        """Return the jobs that may have ended; None if that may be any of them."""

    def checked(self, *, ended: bool) -> None: ...
    def close(self) -> None: ...


def end_notifications(queue: Queue, waker: Waker) -> EndNotifications:
    if isinstance(queue.database, SqliteDatabase):
        return FileEndNotifications(queue.database, waker, queue.clock)
    return ServerEndNotifications(queue, waker)


class FileEndNotifications:
    """Any commit to the file may have ended a job."""

    def __init__(self, database: SqliteDatabase, waker: Waker, clock: Clock) -> None:
        self._connection = database.connect()
        self._waiter = SqliteWaiter(self._connection, database.path, waker, clock)

    def announce(self, joined: Collection[int], left: Collection[int], awaited: Collection[int]) -> None:
        pass

    def wait(self, seconds: float) -> Collection[int] | None:
        return None if self._waiter.wait(seconds) in (Wakeup.CHANGED, Wakeup.TIMEOUT) else ()

    def checked(self, *, ended: bool) -> None:
        self._waiter.note_wakeup(useful=ended)

    def close(self) -> None:
        with closing(self._connection):
            self._waiter.close()


class ServerEndNotifications:
    """A transaction that ends a job notifies the processes that have published that they wait for it."""

    def __init__(self, queue: Queue, waker: Waker) -> None:
        # not at the top: the server's driver may not be installed
        from rowcall.drivers.postgres.database import PostgresDatabase
        from rowcall.store.postgres.dialect import PostgresDialect
        from rowcall.wake.postgres_listener import Listener

        assert isinstance(queue.database, PostgresDatabase)
        assert isinstance(queue.dialect, PostgresDialect)
        self._queue = queue
        self._waker = waker
        self._name = secrets.token_hex(8)
        self._messages: deque[str] = deque()
        self._announced_at = self._queue.clock.timer()
        channel = queue.dialect.channel_of_ends
        self._listener = Listener(queue.database.connect_to_listen, channel, waker, queue.clock, self._messages.append)

    def announce(self, joined: Collection[int], left: Collection[int], awaited: Collection[int]) -> None:
        queue, name = self._queue, self._name
        if left:
            queue.database.write(lambda: queue.dialect.ask(REMOVE_WAITER, name, sorted(left)))
        if self._queue.clock.timer() - self._announced_at > ANNOUNCE_AGAIN_SECONDS:
            self._announced_at, joined = self._queue.clock.timer(), awaited
        if joined:
            queue.database.write(lambda: queue.dialect.ask(REGISTER_WAITER, queue.now_ms(), name, sorted(joined)))

    def wait(self, seconds: float) -> Collection[int] | None:
        if not self._messages and not self._waker.wait(seconds):
            return None
        ids = {self._messages.popleft() for _ in range(len(self._messages))}
        return None if "" in ids else {int(text) for text in ids}

    def checked(self, *, ended: bool) -> None:
        pass

    def close(self) -> None:
        self._listener.close()
