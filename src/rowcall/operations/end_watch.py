"""How those who wait for the end of jobs learn that one may have come."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Collection
from contextlib import closing
from typing import TYPE_CHECKING, Protocol

from rowcall.base.clock import Clock
from rowcall.drivers.sqlite.database import SqliteDatabase
from rowcall.store.results.queries import REGISTER_WAITER, REMOVE_WAITER
from rowcall.wake.sqlite_waiter import SqliteWaiter
from rowcall.wake.waiter import Wakeup
from rowcall.wake.waker import Waker

if TYPE_CHECKING:
    from rowcall.queue import Queue

SAID_AGAIN_SECONDS = 20.0


class Outlook(Protocol):
    """Used by one thread."""

    def announce(self, joined: Collection[int], left: Collection[int], all_of_them: Collection[int]) -> None:
        """Say whose ends are waited for, as far as anybody has to know."""

    def wait(self, seconds: float) -> Collection[int] | None:
        """The jobs that may have ended; None if that may be any of them."""

    def looked(self, *, in_vain: bool) -> None: ...
    def close(self) -> None: ...


def outlook_for(core: Queue, waker: Waker) -> Outlook:
    if isinstance(core.database, SqliteDatabase):
        return FileOutlook(core.database, waker, core.clock)
    return ServerOutlook(core, waker)


class FileOutlook:
    """Whatever is committed to the file may be an end."""

    def __init__(self, database: SqliteDatabase[object, object], waker: Waker, clock: Clock) -> None:
        self._connection = database.connect()
        self._waiter = SqliteWaiter(self._connection, database.path, waker, clock)

    def announce(self, joined: Collection[int], left: Collection[int], all_of_them: Collection[int]) -> None:
        pass

    def wait(self, seconds: float) -> Collection[int] | None:
        return None if self._waiter.wait(seconds) in (Wakeup.CHANGED, Wakeup.TIMEOUT) else ()

    def looked(self, *, in_vain: bool) -> None:
        self._waiter.note_wakeup(useful=not in_vain)

    def close(self) -> None:
        with closing(self._connection):
            self._waiter.close()


class ServerOutlook:
    """Whoever ends a job tells those who wrote down that they wait for it."""

    def __init__(self, core: Queue, waker: Waker) -> None:
        # not at the top: the driver of the server may not be installed
        from rowcall.drivers.postgres.database import PostgresDatabase
        from rowcall.store.postgres.dialect import PostgresDialect
        from rowcall.wake.postgres_listener import Listener

        assert isinstance(core.database, PostgresDatabase)
        assert isinstance(core.dialect, PostgresDialect)
        self._core = core
        self._waker = waker
        self._name = secrets.token_hex(8)
        self._words: deque[str] = deque()
        self._said_at = time.monotonic()
        channel = core.dialect.channel_of_ends
        self._listener = Listener(core.database.connect_to_listen, channel, waker, core.clock, self._words.append)

    def announce(self, joined: Collection[int], left: Collection[int], all_of_them: Collection[int]) -> None:
        core, name = self._core, self._name
        if left:
            core.database.write(lambda: core.dialect.ask(REMOVE_WAITER, name, sorted(left)))
        if time.monotonic() - self._said_at > SAID_AGAIN_SECONDS:
            self._said_at, joined = time.monotonic(), all_of_them
        if joined:
            core.database.write(lambda: core.dialect.ask(REGISTER_WAITER, core.now_ms(), name, sorted(joined)))

    def wait(self, seconds: float) -> Collection[int] | None:
        if not self._words and not self._waker.wait(seconds):
            return None
        told = {self._words.popleft() for _ in range(len(self._words))}
        return None if "" in told else {int(word) for word in told}

    def looked(self, *, in_vain: bool) -> None:
        pass

    def close(self) -> None:
        self._listener.close()
