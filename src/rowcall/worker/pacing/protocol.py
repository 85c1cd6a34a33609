"""What the loop asks of the pacing of its database, and which one it has."""

from __future__ import annotations

from typing import Protocol

from rowcall.drivers.database import Connection
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.queue import Queue
from rowcall.store.claims.demand import Demand, RoundResult
from rowcall.store.queries.claims import Starts
from rowcall.wake.polling import Poller
from rowcall.wake.waiter_and_file_watch import Waker, WorkerWaiter
from rowcall.worker.lanes.dispatcher import Dispatcher
from rowcall.worker.pacing.postgres import PostgresPacing
from rowcall.worker.pacing.settle_thread import SettleThread
from rowcall.worker.pacing.sqlite import SqlitePacing
from rowcall.worker.registrar import Registrar


class Pacing(Protocol):
    """Used by the loop's thread alone."""

    @property
    def waiter(self) -> WorkerWaiter: ...

    @property
    def settle_thread(self) -> SettleThread | None:
        """Settles large groups in a thread of the worker."""

    @property
    def most_last_ahead(self) -> int | None:
        """How many last attempts may wait in the buffer; None for any number."""

    def starts_in_round(self, *, is_group: bool) -> bool:
        """Return whether the lanes can wait for the next round, which starts handlers while it settles the last ones.

        `is_group`: whether there is a group to settle.
        """

    def start_accepted(self) -> None:
        """Start what the dispatcher has accepted."""

    def start_claimed(self) -> None:
        """Start what a round has just claimed, unless the next one starts it."""

    def note_finished(self, last_seconds: float) -> None:
        """Attempts have ended, and the last one took so long."""

    def resume(self) -> Starts:
        """Return where the search of the next round starts."""

    def note_round(self, demand: Demand, result: RoundResult) -> None: ...


def pacing_for(
    queue: Queue, dispatcher: Dispatcher, connection: Connection, waker: Waker, registrar: Registrar
) -> Pacing:
    if isinstance(connection, SqliteConnection):
        return SqlitePacing(queue, dispatcher, connection, waker)
    if (files := queue.database.notification_files) is not None:
        return PostgresPacing(queue, dispatcher, Poller(waker, *files.about("jobs")))
    from rowcall.worker.pacing.postgres_waiter import postgres_waiter  # not everybody has its driver

    return PostgresPacing(queue, dispatcher, postgres_waiter(queue, connection, waker, registrar))
