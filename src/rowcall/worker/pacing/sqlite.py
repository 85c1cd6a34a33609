"""SQLite: handlers that never wait start in portions.

The loop's thread loses the interpreter at each statement, and a handler thread that never waits returns it after
milliseconds. So such handlers run in portions: each while SQLite, which needs no interpreter, settles the last.
"""

from __future__ import annotations

from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.queue import Queue
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.queries.claims import NOTHING_KNOWN, Starts
from rowcall.wake.waiter_and_file_watch import SqliteWaiter, Waker
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pace import MOST_BUFFERED

PORTION = MOST_BUFFERED // 2
"""One half of the buffer runs while the other half is settled."""
INSTANT_SECONDS = 0.001
"""A handler that took less hardly waits for anything but the interpreter."""


class SqlitePacing:
    settle_thread = None  # there is one writer at a time
    most_last_ahead = None  # the liveness file says what has begun: workers share the host

    def __init__(self, queue: Queue, dispatcher: Dispatcher, connection: SqliteConnection, waker: Waker) -> None:
        self._dispatcher = dispatcher
        self._is_instant = False
        self.waiter = SqliteWaiter(connection, queue.database.path, waker, queue.clock)

    def starts_in_round(self, *, is_group: bool) -> bool:
        return self._is_instant and is_group and self._dispatcher.waits_to_start

    def start_accepted(self) -> None:
        self._dispatcher.start_accepted(PORTION if self._is_instant else MOST_BUFFERED)

    def start_claimed(self) -> None:
        if not self._is_instant:
            self.start_accepted()

    def note_finished(self, last_seconds: float) -> None:
        self._is_instant = last_seconds < INSTANT_SECONDS

    def resume(self) -> Starts:
        return NOTHING_KNOWN

    def note_round(self, demand: Demand, result: RoundResult) -> None:
        pass
