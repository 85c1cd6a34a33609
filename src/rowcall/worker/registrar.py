"""The registration of a worker: its name, its lease and its liveness file."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple

import msgspec

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.declare.declaration import code_of, fingerprints
from rowcall.domain.config import VERSION
from rowcall.domain.errors import RowcallError
from rowcall.drivers.group_commit import OutcomeUnknown
from rowcall.drivers.liveness_file import LivenessFile, cannot_create, remove_old
from rowcall.drivers.side_files import make_folder
from rowcall.operations.effects import Write
from rowcall.queue import Queue
from rowcall.store.queries.claims import new_holder
from rowcall.store.queries.workers import Registration
from rowcall.store.recovery.register import register, retire
from rowcall.worker.pace import HANDLERS_CHECK_SECONDS, HEARTBEATS_PER_LEASE, MOST_HOLDERS
from rowcall.worker.service import Background
from rowcall.worker.settings import Settings

RunningHandlers = Callable[[], Collection[tuple[int, int]]]
"""Returns the attempts (ids and leases) that were settled although their handlers still run."""


class Identity(NamedTuple):
    """One registration. Jobs that were claimed under a former one no longer belong to this worker."""

    name: str
    liveness_file: LivenessFile | None


class Lease:
    """Until when the jobs of this worker are certainly its own, by its own clock.

    Other workers declare it lost if they see no heartbeat of it for a whole lease.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self.seconds = seconds
        self.heartbeat_seconds = seconds / HEARTBEATS_PER_LEASE
        self._monotonic = clock.monotonic
        self.ends_at = 0.0

    @property
    def may_be_over(self) -> bool:
        return self._monotonic() > self.ends_at

    def renew(self, sent_at: float) -> None:
        """The database has confirmed a heartbeat that was sent at `sent_at`: no other worker saw it sooner."""
        self.ends_at = max(self.ends_at, sent_at + self.seconds)


class Registrar:
    """Registers a worker, and registers it again, under a new name, after it was declared lost."""

    def __init__(self, queue: Queue, settings: Settings) -> None:
        self._queue = queue
        self._settings = settings
        self.lease = Lease(settings.lease_seconds, queue.clock)
        self.current = Identity("", None)
        self.holders = [0]
        """The last one fences everything that is written about the jobs which are claimed now; newest last."""
        self._registered_tasks = 0
        self.rivals = 0
        """How many other workers serve the same queues, by the last survey."""

    @property
    def name(self) -> str:
        return self.current.name

    @property
    def queues(self) -> str:
        return self._settings.queues_text

    def register(self) -> None:
        queue, settings, name = self._queue, self._settings, worker_name()
        file = self._new_file()
        registration = Registration(
            name=name,
            host=host_name(),
            pid=os.getpid(),
            queues=settings.queues_text,
            concurrency=settings.concurrency,
            version=VERSION,
            lease_ms=round(settings.lease_seconds * 1000),
            lock_path=file.path if file is not None else None,
            served=settings.served,
            tasks=self.known_tasks(),
            code=code_of(queue.declared.tasks),
        )
        registered_at = queue.clock.monotonic()
        try:
            queue.run(Write(register, queue.dialect, registration))
        except BaseException as error:
            if file is not None:
                # after a lost reply it may be registered: then its file shows that it is gone
                file.release() if isinstance(error, OutcomeUnknown) else file.close()
            raise
        self.close()
        self.current = Identity(name, file)
        self.holders = [new_holder()]
        self.lease.renew(registered_at)

    @property
    def holder(self) -> int:
        return self.holders[-1]

    def renew_holder(self) -> None:
        """Fence later claims by another number: a server that lost commits may give ids of our jobs to other jobs."""
        self.holders = [*self.holders[1 - MOST_HOLDERS :], new_holder()]

    def known_tasks(self) -> str:
        """Return the names and fingerprints of the tasks as they are registered."""
        tasks = fingerprints(self._queue.declared.tasks)
        self._registered_tasks = len(tasks)
        return msgspec.json.encode(tasks).decode()

    @property
    def any_new_task(self) -> bool:
        """Whether a task was declared since the last registration."""
        return len(self._queue.declared.tasks) != self._registered_tasks

    def retire(self, handlers: RunningHandlers) -> bool:
        """Remove the registration of a worker that ends. Return false if `keep` must be called.

        That is so while one of the handlers holds a slot under a limit: without the registration it would not count.
        """
        if not self.name:
            return True
        queue, running = self._queue, handlers()
        try:
            retired = queue.run(Write(retire, queue.dialect, self.name, running))
        except RowcallError as error:
            logger.warning("could not remove the registration of worker %s, other workers will: %s", self.name, error)
            if running:
                return False
            if self.current.liveness_file is not None:
                self.current.liveness_file.release()
                self.current = self.current._replace(liveness_file=None)
            return True
        if not retired:
            logger.warning(
                "worker %s has stopped, and handlers that it abandoned still run: they keep their slots under limits"
                " until they end",
                self.name,
            )
        return retired

    def keep(self, handlers: RunningHandlers) -> None:
        """Keep the registration, in a thread, until the handlers end, the queue is closed, or this process exits."""
        thread = Background("abandoned handlers", lambda thread: self._keep(handlers, thread, end), self._queue.clock)

        def end() -> None:
            thread.stop()
            thread.wait()

        self._queue.backend.at_close.add(end)
        atexit.register(end)
        thread.start()

    def _keep(self, handlers: RunningHandlers, thread: Background, end: Callable[[], None]) -> None:
        queue, running, send_at = self._queue, None, 0.0
        while running is None or running:
            before, running = running, set() if thread.stopping() else handlers()
            if running != before or queue.clock.monotonic() >= send_at:
                send_at = queue.clock.monotonic() + self.lease.heartbeat_seconds
                with suppress(RowcallError):  # a server that restarts
                    if queue.run(Write(retire, queue.dialect, self.name, running)):
                        break
            thread.pause(HANDLERS_CHECK_SECONDS)
        self.close()
        queue.backend.at_close.discard(end)
        atexit.unregister(end)

    def close(self) -> None:
        if self.current.liveness_file is not None:
            self.current.liveness_file.close()

    def check_folder(self) -> None:
        """Raise what would keep every worker on this host from starting."""
        if self._queue.database.path and (file := self._new_file()) is not None:
            file.close()

    def _new_file(self) -> LivenessFile | None:
        """With SQLite it is required; with a server it only makes recovery on this host faster."""
        database = self._queue.database
        try:
            make_folder(database.side_folder, database.path)
            remove_old(database.side_folder)
            return LivenessFile(database.side_folder, f"worker-{secrets.token_hex(8)}", database.path)
        except OSError as error:
            if database.path:
                raise cannot_create(database.side_folder, error) from error
            logger.warning(
                "cannot use %s (%s): if this worker dies, other workers notice it only after its lease",
                database.side_folder,
                error.strerror,
            )
            return None


def host_name() -> str:
    return socket.gethostname() or "localhost"


def worker_name() -> str:
    """`web-1:4242:9f3c01`: host, process, and a part that no other worker of that process has."""
    return f"{host_name()}:{os.getpid()}:{secrets.token_hex(3)}"
