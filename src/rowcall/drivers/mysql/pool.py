"""Connections that the threads of a process share."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pymysql

from rowcall.domain.errors import StoreUnavailable
from rowcall.drivers.mysql.connection import is_alive


class MysqlPool:
    """Hands out at most `size` connections; `name` and `wait_seconds` are for the error of a caller that gets none."""

    def __init__(self, open_one: Callable[[], pymysql.Connection], size: int, name: str, wait_seconds: float) -> None:
        self._open_one = open_one
        self._free = threading.Semaphore(size)
        self._idle: list[pymysql.Connection] = []
        self._lock = threading.Lock()
        self._size = size
        self._name = name
        self._wait_seconds = wait_seconds
        self._is_closed = False

    def take(self) -> pymysql.Connection:
        """Return a connection that was not cut while it was idle."""
        if not self._free.acquire(timeout=self._wait_seconds):
            raise StoreUnavailable(
                f"{self._name}: all {self._size} connections of this process were busy for {self._wait_seconds:g} s",
                "Raise pool_size or busy_timeout",
            )
        try:
            while True:
                with self._lock:
                    if self._is_closed:
                        raise StoreUnavailable(f"{self._name}: the queue is being closed")
                    raw = self._idle.pop() if self._idle else None
                if raw is None:
                    return self._open_one()
                if is_alive(raw):
                    return raw
                _close(raw)
        except BaseException:
            self._free.release()
            raise

    def give_back(self, raw: pymysql.Connection) -> None:
        with self._lock:
            is_kept = not self._is_closed and raw.open
            if is_kept:
                self._idle.append(raw)
        if not is_kept:
            _close(raw)
        self._free.release()

    def close(self) -> None:
        """Close what is idle now, and the others when they are returned."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for raw in idle:
            _close(raw)


def _close(raw: pymysql.Connection) -> None:
    if raw.open:
        raw.close()
