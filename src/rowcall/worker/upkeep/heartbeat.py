"""Signs of life, and the care for those who show none: two threads beside the loop."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Mapping
from contextlib import closing

from rowcall.context import logger
from rowcall.domain.errors import RowcallError
from rowcall.drivers import liveness_file
from rowcall.queue.core import Core
from rowcall.store.dialect import Peer
from rowcall.store.jobs.recover import recover_expired, recover_orphans, recover_worker
from rowcall.worker.lease import Lease
from rowcall.worker.loop.outage import Outage
from rowcall.worker.upkeep.held_jobs import Sweeper
from rowcall.worker.upkeep.mismatches import Mismatches

BEATS_PER_LEASE, LOOKS_PER_LEASE = 5, 3
LAST_LOOK_SECONDS = 2.0
CHECK_SECONDS = 0.5
TIDY_SECONDS = 2.0


class Heart:
    """Raises the worker's beat from a thread of its own, so that a handler that blocks all else does not look dead."""

    def __init__(self, core: Core, lease_seconds: float, lost: Callable[[], None], outage: Outage) -> None:
        self._core = core
        self.interval_seconds = lease_seconds / BEATS_PER_LEASE
        self._lost = lost
        self._outage = outage
        self.lease = Lease(lease_seconds, core.clock.monotonic)
        self._stopped = threading.Event()
        self._beaten_at = core.clock.monotonic()
        self._thread: threading.Thread | None = None
        self.worker = ""

    @property
    def is_heard(self) -> bool:
        """Whether our own beats get through. If not, nobody's do, and their silence says nothing."""
        return self._core.clock.monotonic() - self._beaten_at <= 3 * self.interval_seconds

    def start(self) -> None:
        self._thread = threading.Thread(target=self._beat, name="rowcall-heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def wait(self) -> None:
        _wait_for(self._thread)

    def _beat(self) -> None:
        # a connection of its own: whatever keeps all the others busy does not silence it
        with closing(self._core.database.connect()) as connection:
            while not self._stopped.wait(self.interval_seconds):
                worker = self.worker
                try:
                    beat = self._core.dialect.beat(worker, self._core.now_ms())
                    sent_at = self._core.clock.monotonic()
                    registered = connection.write_one_statement(beat)
                    self._beaten_at = self._core.clock.monotonic()
                    self._outage.over("heart")
                    if worker == self.worker:
                        if registered:
                            self.lease.renew(sent_at)
                        else:
                            self._lost()
                except RowcallError as error:
                    self._outage.noticed("heart", error)
                except Exception:  # without a heart, the others would take this worker for lost
                    logger.exception("the beat of worker %s failed because of an error of its own", worker)


class Watcher:
    """Finds workers that are gone and gives their jobs back. Every worker does this; two at once do no harm."""

    def __init__(self, core: Core, heart: Heart | None = None, outage: Outage | None = None) -> None:
        self._core = core
        self._heart = heart
        self._outage = outage or Outage()
        self._seen: dict[str, tuple[int, float]] = {}
        self._dead: set[str] = set()
        self._strays: set[str] = set()
        self._looked_at = core.clock.monotonic()
        self._survey_seconds = core.database.survey_seconds
        if heart is not None:
            self._survey_seconds = min(self._survey_seconds, heart.interval_seconds * BEATS_PER_LEASE / LOOKS_PER_LEASE)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self.sweeper = Sweeper(core)
        self.mismatches: Mismatches | None = None
        self.worker = ""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="rowcall-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self.mismatches is not None:
            self.mismatches.stopping = True

    def wait(self) -> None:
        _wait_for(self._thread)

    def _watch(self) -> None:
        monotonic = self._core.clock.monotonic
        survey_at = tidy_at = monotonic()
        while not self._stopped.is_set():
            try:
                if monotonic() >= survey_at or self._any_dead_here():
                    # not all of a fleet at once
                    survey_at = monotonic() + self._survey_seconds * random.uniform(0.8, 1.2)
                    self.check()
                    self._outage.over("watcher")
                if self.mismatches is not None and self.mismatches.expected:
                    self.mismatches.look()
                if monotonic() >= tidy_at:
                    tidy_at = monotonic() + TIDY_SECONDS
                    self._core.database.tidy()
            except RowcallError as error:
                self._seen.clear()  # nobody is to blame for what we could not see
                self._outage.noticed("watcher", error)
            except Exception:
                logger.exception("looking after other workers failed because of an error of its own")
            self._stopped.wait(CHECK_SECONDS)

    def _any_dead_here(self) -> bool:
        """Whether the kernel has freed the lock of a worker on this host, known to us or not: costs no statement."""
        files = liveness_file.files_in(self._core.database.side_folder)
        self._strays &= files
        self._dead = {path for path in files - self._strays if liveness_file.is_dead(path)}
        return bool(self._dead)

    def check(self) -> int:
        """Look once; gives the number of jobs that were given back."""
        core = self._core
        now = core.clock.monotonic()
        if self._heart is not None and now - self._looked_at > 2 * (self._survey_seconds + CHECK_SECONDS):
            self._seen.clear()  # we were stopped ourselves, and perhaps all others with us
        self._looked_at = now
        survey = core.read(core.dialect.survey(core.now_ms()))
        peers = [peer for peer in survey.peers if peer.name != self.worker]
        # a dead worker's file that no row names is another queue's, or its worker was never registered
        self._strays = (self._strays | self._dead) - {self._ledger_of(peer) for peer in peers}
        recovered = sum(self._recover(peer) for peer in peers if self._is_gone(peer, now))
        names = {peer.name for peer in peers}
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        if survey.any_lease_expired:
            recovered += core.write(lambda: recover_expired(core.dialect, core.now_ms()))
        if survey.any_orphan:
            recovered += core.write(lambda: recover_orphans(core.dialect, core.now_ms()))
        self.sweeper.look()
        if self.mismatches is not None:
            self.mismatches.look()
        return recovered

    def _is_gone(self, peer: Peer, now: float) -> bool:
        """Dead for sure, by its lock; or silent for its whole lease while we were looking, by our own clock."""
        if liveness_file.is_dead(self._ledger_of(peer)):
            return True
        beat, since = self._seen.get(peer.name, (-1, now))
        if beat != peer.beat or (self._heart is not None and not self._heart.is_heard):
            self._seen[peer.name] = (peer.beat, now)
            return False
        return (now - since) * 1000 >= peer.lease_ms

    def _ledger_of(self, peer: Peer) -> str | None:
        """Its file beside our database, under whatever path we see that: a copied database has none of them."""
        if peer.lock_path is None:
            return None
        path = os.path.join(self._core.database.side_folder, os.path.basename(peer.lock_path))
        return path if os.path.exists(path) else None

    def _recover(self, peer: Peer) -> int:
        """All of it, or what can be had now: the rest at the next look."""
        core, path = self._core, self._ledger_of(peer)
        begun = liveness_file.started_jobs(path)
        beat = None if liveness_file.is_dead(path) else peer.beat
        total, done = 0, False
        while not done:
            recovered, done = core.write(
                lambda: recover_worker(
                    core.dialect, peer.name, _ages_ms(begun, core.clock.monotonic()), core.now_ms(), beat=beat
                )
            )
            total += recovered
            if not (recovered or done):
                return total
        if liveness_file.is_dead(path):  # in a copy of the database, its rows may name one that lives on the original
            liveness_file.remove(path)
        self._seen.pop(peer.name, None)
        how = "is gone" if beat is None else f"was silent for {peer.lease_ms / 1000:g} s"
        given = f"{total} of its jobs {'was' if total == 1 else 'were'} given back"
        logger.warning("worker %s %s; %s", peer.name, how, given)
        return total


def _ages_ms(begun: Mapping[tuple[int, int], float] | None, now: float) -> dict[tuple[int, int], int] | None:
    return None if begun is None else {attempt: max(0, round((now - at) * 1000)) for attempt, at in begun.items()}


def _wait_for(thread: threading.Thread | None) -> None:
    """Until it has let go of its connections, so that whoever closes the queue now closes all of it."""
    if thread is not None:
        thread.join(LAST_LOOK_SECONDS)  # one that waits for a server out of reach ends by itself
