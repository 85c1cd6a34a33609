"""Choosing the waiter that fits the database."""

from __future__ import annotations

from rowcall.drivers.database import Connection
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.queue import Queue
from rowcall.wake.sqlite_waiter import SqliteWaiter
from rowcall.wake.waiter import Waiter
from rowcall.wake.waker import Waker
from rowcall.worker.registrar import Registrar


def waiter_for(queue: Queue, connection: Connection, waker: Waker, registrar: Registrar) -> Waiter:
    if isinstance(connection, SqliteConnection):
        return SqliteWaiter(connection, queue.database.path, waker, queue.clock)
    from rowcall.worker.loop.postgres_waiter import postgres_waiter

    return postgres_waiter(queue, connection, waker, registrar)
