"""Sends heartbeats from a separate thread, so that a worker with a blocking handler is not declared lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from rowcall.drivers.database import Connection
from rowcall.queue import Queue
from rowcall.store.queries.workers import HEARTBEAT_OF_WORKER, SET_TASKS
from rowcall.worker.pace import MISSED_HEARTBEATS
from rowcall.worker.registrar import Registrar
from rowcall.worker.service import Background


class Heartbeat:
    def __init__(self, queue: Queue, registrar: Registrar, lost: Callable[[], None]) -> None:
        self._queue = queue
        self._registrar = registrar
        self._lost = lost
        self.interval_seconds = registrar.lease.heartbeat_seconds
        self._confirmed_at = queue.clock.monotonic()

    @property
    def is_confirmed(self) -> bool:
        """Whether our own heartbeats reach the database. If not, the silence of other workers proves nothing."""
        return self._queue.clock.monotonic() - self._confirmed_at <= MISSED_HEARTBEATS * self.interval_seconds

    def run(self, thread: Background) -> None:
        # a separate connection, which nothing else can keep busy
        with closing(self._queue.database.connect()) as connection:
            while thread.pause(self.interval_seconds):
                thread.attempt(lambda: self._send(connection))

    def _send(self, connection: Connection) -> None:
        worker, monotonic = self._registrar.name, self._queue.clock.monotonic
        sent_at = monotonic()
        registered = connection.write(self._queue.dialect.ask(HEARTBEAT_OF_WORKER, worker), one_statement=True)
        self._confirmed_at = monotonic()
        if worker != self._registrar.name:
            return
        if registered:
            self._registrar.lease.renew(sent_at)
            if self._registrar.any_new_task:
                connection.write(self._queue.dialect.ask(SET_TASKS, worker, self._registrar.known_tasks()))
        else:
            self._lost()
