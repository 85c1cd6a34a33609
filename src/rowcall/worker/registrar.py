"""The registration of a worker: its name, its lease and its liveness file."""

from __future__ import annotations

import os
import secrets
from typing import NamedTuple

from rowcall.base.clock import Clock
from rowcall.context import logger
from rowcall.domain.config import VERSION
from rowcall.domain.errors import RowcallError
from rowcall.drivers.liveness_file import LivenessFile, cannot_create, remove_old
from rowcall.drivers.side_files import make_folder
from rowcall.operations.steps import Write
from rowcall.queue import Queue
from rowcall.store.jobs.queries import Registration
from rowcall.store.jobs.recover import register, retire
from rowcall.worker.process.identity import host_name, worker_name
from rowcall.worker.settings import Settings


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

    def __init__(self, core: Queue, settings: Settings) -> None:
        self._core = core
        self._settings = settings
        self.lease = Lease(settings.lease_seconds, core.clock)
        self.current = Identity("", None)

    @property
    def name(self) -> str:
        return self.current.name

    def register(self) -> None:
        core, settings, name = self._core, self._settings, worker_name()
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
        )
        registered_at = core.clock.monotonic()
        try:
            core.run(Write(lambda: register(core.dialect, registration, core.now_ms())))
        except BaseException:
            if file is not None:
                file.close()
            raise
        self.close()
        self.current = Identity(name, file)
        self.lease.renew(registered_at)

    def retire(self) -> None:
        """Remove the registration of a worker that ends."""
        if not self.name:
            return
        try:
            self._core.run(Write(lambda: retire(self._core.dialect, self.name)))
        except RowcallError as error:
            logger.warning("could not remove the registration of worker %s, other workers will: %s", self.name, error)

    def close(self) -> None:
        if self.current.liveness_file is not None:
            self.current.liveness_file.close()

    def check_folder(self) -> None:
        """Raise what would keep every worker on this host from starting."""
        if self._core.database.path and (file := self._new_file()) is not None:
            file.close()

    def _new_file(self) -> LivenessFile | None:
        """With SQLite it is required; with a server it only makes recovery on this host faster."""
        database = self._core.database
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
