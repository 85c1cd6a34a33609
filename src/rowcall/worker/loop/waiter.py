"""The lookout that fits the database."""

from __future__ import annotations

from rowcall.drivers.database import Connection
from rowcall.drivers.sqlite.connection import SqliteConnection
from rowcall.queue import Queue
from rowcall.wake.file_watch import Bell
from rowcall.wake.notification import Lookout
from rowcall.wake.sqlite_waiter import FileLookout
from rowcall.worker.registrar import Registrar


def lookout_for(core: Queue, connection: Connection, bell: Bell, registrar: Registrar) -> Lookout:
    if isinstance(connection, SqliteConnection):
        return FileLookout(connection, core.database.path, bell)
    from rowcall.worker.loop.postgres_waiter import server_lookout

    return server_lookout(core, connection, bell, registrar)
