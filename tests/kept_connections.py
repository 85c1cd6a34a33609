"""Connections that a closed queue leaves to the next test: a new process of the server costs more than many tests.

The server has undone everything about them (`discard all`), and who closed one cannot use it any more.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from typing import Any, cast

import psycopg
from psycopg import pq

from rowcall.drivers.postgres.connection import OwnConnection, is_alive

MOST_PER_DATABASE = 12
Row = tuple[Any, ...]


class KeptConnections:
    """Opens the connections that Rowcall asks for in this process, to databases that are named by `keep`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner_pid = os.getpid()
        self._kept: dict[str, list[pq.abc.PGconn]] = defaultdict(list)
        self._urls: set[str] = set()
        self._connect = OwnConnection.connect
        OwnConnection.connect = self._connected  # type: ignore[method-assign]

    def keep(self, url: str) -> None:
        """From now on, keep connections to this database."""
        self._urls.add(url)

    def pids(self, url: str) -> list[int]:
        """Return the server's processes of the connections that are kept now."""
        with self._lock:
            return [pgconn.backend_pid for pgconn in self._kept[url]]

    def forget(self, url: str) -> None:
        """Close what is kept, and keep no more."""
        self._urls.discard(url)
        with self._lock:
            for pgconn in self._kept.pop(url, []):
                pgconn.finish()

    def close(self) -> None:
        OwnConnection.connect = self._connect  # type: ignore[method-assign]
        for url in list(self._urls):
            self.forget(url)

    def _connected(self, conninfo: str = "", **options: Any) -> OwnConnection:
        if conninfo not in self._urls or options.get("application_name") != "rowcall" or not self._is_owner():
            return self._connect(conninfo, **options)
        connection = self._kept_one(conninfo)
        if connection is None:
            connection = _opened(conninfo, **options)
        else:
            connection.autocommit = options["autocommit"]
            connection.cursor_factory = options["cursor_factory"]
        connection.returned_to = (self, conninfo)
        return connection

    def _kept_one(self, url: str) -> _Connection | None:
        with self._lock:
            while self._kept[url]:
                connection = _Connection(self._kept[url].pop())
                if is_alive(connection):
                    return connection
                connection.close()
        return None

    def returned(self, pgconn: pq.abc.PGconn, url: str) -> bool:
        """Keep this connection, if the server can undo everything about it."""
        if not self._is_owner() or pgconn.transaction_status != pq.TransactionStatus.IDLE:
            return False
        with self._lock:
            if url not in self._urls or len(self._kept[url]) >= MOST_PER_DATABASE:
                return False
            if pgconn.exec_(b"discard all").status != pq.ExecStatus.COMMAND_OK:
                return False
            pgconn.notice_handler = pgconn.notify_handler = None
            self._kept[url].append(pgconn)
        return True

    def _is_owner(self) -> bool:
        return os.getpid() == self._owner_pid


class _Connection(OwnConnection):
    returned_to: tuple[KeptConnections, str] | None = None

    def close(self) -> None:
        if self.closed or self.returned_to is None or not self.lock.acquire(blocking=False):
            super().close()
            return
        (kept, url), self.returned_to = self.returned_to, None
        pgconn, lock = self.pgconn, self.lock
        self.pgconn, self.lock = _closed(), _ClosedLock()  # type: ignore[assignment]  # found closed by all who have it
        lock.release()
        if not kept.returned(pgconn, url):
            pgconn.finish()


def _opened(url: str, **options: Any) -> _Connection:
    connect = psycopg.Connection.connect.__func__  # type: ignore[attr-defined]
    return cast(_Connection, connect(_Connection, url, **options))


class _ClosedLock:
    """Replaces the lock that each use of a connection takes."""

    def acquire(self, blocking: bool = True) -> bool:
        return False

    def __enter__(self) -> None:
        raise psycopg.OperationalError("the connection is closed")

    def __exit__(self, *error: object) -> None: ...


def _closed() -> pq.abc.PGconn:
    pgconn = pq.PGconn.connect_start(b"host=/nonexistent")
    pgconn.finish()
    return pgconn
