"""Logs problems of the queue, each one at most once an hour."""

from __future__ import annotations

import os
import shutil

from rowcall.base.times import milliseconds_of
from rowcall.context import logger
from rowcall.domain.job import WorkerInfo, is_paused
from rowcall.drivers.database import Connection
from rowcall.observe.health import Complaint, HostFacts, complaints
from rowcall.queue import Queue
from rowcall.store.queries.control import PAUSED
from rowcall.store.queries.counts import HEALTH, NOW, ONCE_EVERY, UNFINISHED, StoreHealth
from rowcall.store.queries.workers import WORKERS
from rowcall.worker.pace import HEALTH_SILENCE_MS
from rowcall.worker.registrar import host_name


def log_health(queue: Queue, connection: Connection) -> list[Complaint]:
    """Check once, log new problems, and return all that were found."""
    asked_at = queue.clock.wall()
    (at_ms,) = connection.read(queue.dialect.ask(NOW))
    ahead = at_ms / 1000 - (asked_at + queue.clock.wall()) / 2
    workers = connection.read(queue.dialect.ask(WORKERS))
    paused = {(one.kind, one.name) for one in connection.read(queue.dialect.ask(PAUSED))}
    unfinished = connection.read(queue.dialect.ask(UNFINISHED))
    problems = list(
        complaints(
            # paused on purpose: not a problem
            [one for one in unfinished if not is_paused(one.queue, one.type, paused)],
            [_served(worker) for worker in workers if _is_alive(worker, at_ms)],
            next(iter(connection.read(queue.dialect.ask(HEALTH))), StoreHealth()),
            _host_facts(queue, ahead),
            at_ms,
        )
    )
    for complaint in problems:
        _log(queue, connection, complaint)
    return problems


def _log(queue: Queue, connection: Connection, complaint: Complaint) -> None:
    """Log it, unless another worker has done so within the last hour."""
    where = f" on {host_name()}" if complaint.here else ""
    said = queue.dialect.ask(ONCE_EVERY, f"complaint: {complaint.kind}{where}", HEALTH_SILENCE_MS)
    if connection.write(said, one_statement=True):
        logger.warning("%s. %s", complaint.what, complaint.advice)


def _host_facts(queue: Queue, ahead_seconds: float) -> HostFacts:
    path = queue.database.path
    if not path:  # the disk of a server is not visible, and its clock is another one
        own_clock = queue.now_ms() is not None
        return HostFacts(clock_ahead_seconds=None if own_clock else ahead_seconds)
    wal = f"{path}-wal"
    return HostFacts(
        wal_bytes=os.path.getsize(wal) if os.path.exists(wal) else None,
        free_bytes=shutil.disk_usage(os.path.dirname(path)).free,
    )


def _is_alive(worker: WorkerInfo, at_ms: int) -> bool:
    """A worker that has stopped, and that only keeps slots of abandoned handlers, has a concurrency of 0."""
    return worker.concurrency > 0 and at_ms - milliseconds_of(worker.heartbeat_at) <= worker.lease_seconds * 1000


def _served(worker: WorkerInfo) -> frozenset[str] | None:
    if worker.queues == "*":
        return None
    return frozenset(part.partition("=")[0] for part in worker.queues.split(","))
