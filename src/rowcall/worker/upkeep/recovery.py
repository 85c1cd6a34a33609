"""Finds workers that died and recovers their jobs. Every worker does this; two at once do no harm."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from rowcall.base.text import duration
from rowcall.context import logger
from rowcall.declare.follow_ups import outcome_of
from rowcall.drivers import liveness_file
from rowcall.observe.meter import Meter
from rowcall.operations.effects import Read, Write
from rowcall.queue import Queue
from rowcall.store.queries.workers import SURVEY, Peer
from rowcall.store.recovery.recover import RecoveredAttempt, recover_expired, recover_orphans, recover_worker
from rowcall.worker.pace import (
    CHECKPOINT_SECONDS,
    FILES_WATCHED,
    HEARTBEATS_PER_LEASE,
    RECOVERY_CHECK_SECONDS,
    SURVEY_JITTER,
    SURVEYS_PER_LEASE,
    survey_seconds,
)
from rowcall.worker.registrar import Registrar
from rowcall.worker.service import Background, Stopping, never
from rowcall.worker.upkeep.heartbeat import Heartbeat
from rowcall.worker.upkeep.held_jobs import HeldJobs
from rowcall.worker.upkeep.unknown_tasks import UnknownTasks


class Recovery:
    def __init__(
        self,
        queue: Queue,
        registrar: Registrar | None = None,
        heartbeat: Heartbeat | None = None,
        unknown: UnknownTasks | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._queue = queue
        self._registrar = registrar
        self._heartbeat = heartbeat
        self._unknown = unknown
        self._meter = meter
        self.held_jobs = HeldJobs(queue)
        self._seen: dict[str, tuple[int, float]] = {}
        self._other_files: set[str] = set()
        self._unnamed_files: set[str] = set()
        self._any_is_dead = False
        self._surveyed_at = queue.clock.monotonic()
        self._usual_seconds = queue.database.survey_seconds
        if heartbeat is not None:
            lease_seconds = heartbeat.interval_seconds * HEARTBEATS_PER_LEASE
            self._usual_seconds = min(self._usual_seconds, lease_seconds / SURVEYS_PER_LEASE)
        self._survey_seconds = self._usual_seconds
        self._survey_at = self._checkpoint_at = self._surveyed_at

    def run(self, thread: Background) -> None:
        while not thread.stopping():
            if not thread.attempt(lambda: self._step(thread.stopping)):
                self._seen.clear()  # while the database did not answer, silence proves nothing
            thread.pause(RECOVERY_CHECK_SECONDS)

    def _step(self, stopping: Stopping) -> None:
        clock = self._queue.clock
        if clock.monotonic() >= self._survey_at or self.any_dead_here():
            # not the whole fleet at once
            least, more = SURVEY_JITTER
            self._survey_at = clock.monotonic() + self._survey_seconds * (least + more * clock.chance())
            self.check(stopping)
        if clock.monotonic() >= self._checkpoint_at:
            self._checkpoint_at = clock.monotonic() + CHECKPOINT_SECONDS
            self._queue.database.checkpoint()

    def any_dead_here(self) -> bool:
        """Return whether the kernel has released the lock of a worker on this host. Runs no statement.

        Each worker watches those whose files come after its own: if all looked at all, the work would grow with the
        square of their number. The survey that follows looks at all, so each of several dead is found.
        """
        files = liveness_file.files_in(self._queue.database.side_folder) - self._other_files
        own = self._registrar.current.liveness_file if self._registrar is not None else None
        watched = files if own is None else next_in_turn(files - {own.path}, own.path, FILES_WATCHED)
        self._any_is_dead = any(map(liveness_file.is_dead, watched))
        return self._any_is_dead

    def check(self, stopping: Stopping = never) -> int:
        """Check once; return the number of recovered jobs."""
        queue = self._queue
        now = queue.clock.monotonic()
        usual_seconds = self._survey_seconds + RECOVERY_CHECK_SECONDS
        if self._heartbeat is not None and now - self._surveyed_at > 2 * usual_seconds:
            self._seen.clear()  # this process was stopped, and perhaps all others with it
        self._surveyed_at = now
        files = liveness_file.files_in(queue.database.side_folder)
        (survey,) = queue.run(Read(queue.dialect.ask(SURVEY)))
        our_name = self._registrar.name if self._registrar is not None else None
        peers = [peer for peer in survey.peers if peer.name != our_name]
        if self._registrar is not None:
            self._registrar.rivals = sum(peer.queues == self._registrar.queues for peer in peers)
        # a file that no row names twice is another queue's, or its worker is not registered
        unnamed = files - {self._file_of(peer) for peer in peers}
        self._other_files, self._unnamed_files = unnamed & self._unnamed_files, unnamed
        recovered = sum(self._recover(peer) for peer in peers if self._is_gone(peer, now))
        self._any_is_dead = False
        self._survey_seconds = survey_seconds(self._usual_seconds, len(survey.peers))
        names, on_end = {peer.name for peer in peers}, queue.declared.follow_ups.on_end_of
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        if survey.any_lease_expired:
            recovered += self._counted(queue.run(Write(recover_expired, queue.dialect, on_end)))
        if survey.any_orphan:
            recovered += self._counted(queue.run(Write(recover_orphans, queue.dialect, on_end)))
        if survey.any_held:
            self.held_jobs.check()
        if self._unknown is not None:
            self._unknown.check(stopping)
        return recovered

    def _counted(self, attempts: list[RecoveredAttempt]) -> int:
        if self._meter is not None:
            self._meter.add_recovered(attempts)
        if self._queue.declared.follow_ups.observers:
            for job, transition in attempts:
                self._queue.declared.follow_ups.call_observers(outcome_of(job, transition))
        return len(attempts)

    def _is_gone(self, peer: Peer, now: float) -> bool:
        """Return whether its lock is free, or it was silent for its whole lease, by our clock, while connected."""
        heartbeat, since = self._seen.get(peer.name, (-1, now))
        lives = heartbeat not in (-1, peer.heartbeats) and not self._any_is_dead
        if not lives and liveness_file.is_dead(self._file_of(peer)):
            return True
        if heartbeat != peer.heartbeats or (self._heartbeat is not None and not self._heartbeat.is_confirmed):
            self._seen[peer.name] = (peer.heartbeats, now)
            return False
        return (now - since) * 1000 >= peer.lease_ms

    def _file_of(self, peer: Peer) -> str | None:
        """Return its liveness file, in the folder of our database. A copied database has none."""
        if peer.lock_path is None:
            return None
        path = os.path.join(self._queue.database.side_folder, os.path.basename(peer.lock_path))
        return path if os.path.exists(path) else None

    def _recover(self, peer: Peer) -> int:
        """Recover its jobs. Jobs that are locked now follow at the next check."""
        queue, path = self._queue, self._file_of(peer)
        started = liveness_file.started_jobs(path)
        heartbeat = None if liveness_file.is_dead(path) else peer.heartbeats
        total, done = 0, False
        while not done:
            ages_ms = _ages_ms(started, queue.clock.monotonic())
            attempts, done = queue.run(
                Write(
                    recover_worker,
                    queue.dialect,
                    peer.name,
                    ages_ms,
                    heartbeats=heartbeat,
                    on_end=queue.declared.follow_ups.on_end_of,
                )
            )
            recovered = self._counted(attempts)
            total += recovered
            if not (recovered or done):
                return total
        if liveness_file.is_dead(path):  # a copy of a database may name a worker that lives on the original
            liveness_file.remove(path)
        self._seen.pop(peer.name, None)
        why = "its process is gone" if heartbeat is None else f"silent for {duration(peer.lease_ms / 1000)}"
        logger.warning("recovered %d job%s from worker %s: %s", total, "" if total == 1 else "s", peer.name, why)
        return total


def next_in_turn(files: Iterable[str], own: str, count: int) -> list[str]:
    """Return the files after our own, in a circle.

    >>> next_in_turn({"a", "b", "d", "e"}, "c", 3), next_in_turn({"a"}, "c", 3)
    (['d', 'e', 'a'], ['a'])
    """
    return sorted(files, key=lambda path: (path < own, path))[:count]


def _ages_ms(started: Mapping[tuple[int, int], float] | None, now: float) -> dict[tuple[int, int], int] | None:
    return None if started is None else {attempt: max(0, round((now - at) * 1000)) for attempt, at in started.items()}
