"""What the log of a worker says of the queue's health, each thing at most once an hour."""

from __future__ import annotations

import os
import shutil
import time

from rowcall.base.times import milliseconds_of
from rowcall.context import logger
from rowcall.domain.job import WorkerInfo, is_paused
from rowcall.drivers.database import Connection
from rowcall.observe.health import Complaint, Surroundings, complaints
from rowcall.queue.core import Core
from rowcall.worker.process.identity import host_name

SILENCE_MS = 3_600_000


class Complaints:
    def __init__(self, core: Core) -> None:
        self._core = core

    def look(self, connection: Connection) -> list[Complaint]:
        """Look once, say what is new, and give all that was found."""
        core = self._core
        asked_at = time.time()
        at_ms = connection.read(core.dialect.now(core.now_ms()))
        ahead = at_ms / 1000 - (asked_at + time.time()) / 2
        workers = connection.read(core.dialect.workers())
        paused = {(one.kind, one.name) for one in connection.read(core.dialect.paused())}
        found = list(
            complaints(
                # what somebody has stopped on purpose is nothing to complain of
                [one for one in connection.read(core.dialect.waiting()) if not is_paused(one.queue, one.type, paused)],
                [_served(worker) for worker in workers if _is_heard(worker, at_ms)],
                connection.read(core.dialect.health()),
                self._surroundings(ahead),
                at_ms,
            )
        )
        for complaint in found:
            self._say(connection, complaint)
        return found

    def _say(self, connection: Connection, complaint: Complaint) -> None:
        """Unless somebody has said it within the last hour; of this host alone, somebody here."""
        where = f" on {host_name()}" if complaint.here else ""
        core = self._core
        said = core.dialect.take_duty(f"complaint: {complaint.kind}{where}", SILENCE_MS, core.now_ms())
        if connection.write_one_statement(said):
            logger.warning("%s. %s", complaint.what, complaint.advice)

    def _surroundings(self, ahead_seconds: float) -> Surroundings:
        path = self._core.database.path
        if not path:  # a server's disk is out of sight, and its clock another
            own_clock = self._core.now_ms() is not None
            return Surroundings(clock_ahead_seconds=None if own_clock else ahead_seconds)
        wal = f"{path}-wal"
        return Surroundings(
            wal_bytes=os.path.getsize(wal) if os.path.exists(wal) else None,
            free_bytes=shutil.disk_usage(os.path.dirname(path)).free,
        )


def _is_heard(worker: WorkerInfo, at_ms: int) -> bool:
    return at_ms - milliseconds_of(worker.beat_at) <= worker.lease_seconds * 1000


def _served(worker: WorkerInfo) -> frozenset[str] | None:
    if worker.queues == "*":
        return None
    return frozenset(part.partition("=")[0] for part in worker.queues.split(","))
