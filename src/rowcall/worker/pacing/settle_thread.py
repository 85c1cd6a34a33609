"""Settles one large group after the other in a thread, while the loop claims the next jobs."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from rowcall.queue import Queue
from rowcall.store.ends.attempts import Written
from rowcall.store.statement import Plan
from rowcall.worker.attempt import Attempt
from rowcall.worker.service import Background


class SettleThread:
    """A server works on several statements at once: so it settles one group while the loop claims another, and the
    interpreter works at the same time. The thread and its connection begin with the first group.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._given = threading.Event()
        self._service = Background("settle", self._run, queue.clock, wake=self._given)
        self._plan: Plan[Written] | None = None
        self._written: Future[Written] = Future()
        self.attempts: list[Attempt] = []
        """The group that is being settled."""

    def start(self, attempts: list[Attempt], plan: Plan[Written]) -> None:
        """Settle a group. The one before it must have been taken."""
        self._written, self._plan, self.attempts = Future(), plan, attempts
        self._service.start()
        self._given.set()

    @property
    def is_done(self) -> bool:
        return self._written.done()

    def take(self) -> tuple[list[Attempt], Future[Written]]:
        """Return the group and the future of what was written; its `result` waits, and raises."""
        attempts, self.attempts = self.attempts, []
        return attempts, self._written

    def close(self) -> None:
        self._service.stop()
        self._service.wait()

    def _run(self, background: Background) -> None:
        connection = self._queue.database.connect()
        try:
            while self._given.wait():
                self._given.clear()  # first: it is set again by a stop that comes after the check
                if background.stopping():
                    return
                written, plan = self._written, self._plan
                assert plan is not None
                try:
                    written.set_result(connection.write(plan))
                except BaseException as error:  # raised again in the loop
                    written.set_exception(error)
        finally:
            connection.close()
