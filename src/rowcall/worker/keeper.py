"""Signs of life, and the care for those who show none: two threads beside the loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from rowcall.context import logger
from rowcall.errors import RowcallError
from rowcall.queue.core import Core
from rowcall.store.dialect import Peer
from rowcall.store.plans.recover import RECOVERED_AT_ONCE, recover_expired, recover_orphans, recover_worker
from rowcall.worker import ledger

BEATS_PER_LEASE = 5
CHECK_SECONDS = 0.5
CHECKS_PER_TIDY = 4


class Heart:
    """Raises the worker's beat from a thread of its own, so that a handler that blocks all else does not look dead."""

    def __init__(self, core: Core, lease_seconds: float, lost: Callable[[], None]) -> None:
        self._core = core
        self._interval_seconds = lease_seconds / BEATS_PER_LEASE
        self._lost = lost
        self._stopped = threading.Event()
        self._beaten_at = core.clock.monotonic()
        self.worker = ""

    @property
    def is_heard(self) -> bool:
        """Whether our own beats get through. If not, nobody's do, and their silence says nothing."""
        return self._core.clock.monotonic() - self._beaten_at <= 2 * self._interval_seconds

    def start(self) -> None:
        threading.Thread(target=self._beat, name="rowcall-heart", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _beat(self) -> None:
        while not self._stopped.wait(self._interval_seconds):
            worker = self.worker
            try:
                registered = self._core.write(self._core.dialect.beat(worker, self._core.now_ms()))
                self._beaten_at = self._core.clock.monotonic()
                if not registered and worker == self.worker:
                    self._lost()
            except RowcallError as error:
                logger.warning("the beat of worker %s could not be written: %s", worker, error)


class Watcher:
    """Finds workers that are gone and gives their jobs back. Every worker does this; two at once do no harm."""

    def __init__(self, core: Core, heart: Heart | None = None) -> None:
        self._core = core
        self._heart = heart
        self._seen: dict[str, tuple[int, float]] = {}
        self._stopped = threading.Event()
        self.worker = ""

    def start(self) -> None:
        threading.Thread(target=self._watch, name="rowcall-watcher", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        checks = 0
        while not self._stopped.is_set():
            try:
                self.check()
                checks += 1
                if checks % CHECKS_PER_TIDY == 0:
                    self._core.database.tidy()
            except RowcallError as error:
                self._seen.clear()  # nobody is to blame for what we could not see
                logger.warning("other workers could not be looked at: %s", error)
            self._stopped.wait(CHECK_SECONDS)

    def check(self) -> int:
        """Look once; gives the number of jobs that were given back."""
        core = self._core
        peers = [peer for peer in core.read(core.dialect.peers()) if peer.name != self.worker]
        recovered = sum(self._recover(peer) for peer in peers if self._is_gone(peer))
        names = {peer.name for peer in peers}
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        return recovered + self._recover_ownerless()

    def _recover_ownerless(self) -> int:
        core, recovered = self._core, 0
        if core.read(core.dialect.lease_expired(1, core.now_ms())):
            recovered += core.write(recover_expired(core.dialect, core.now_ms()))
        if core.read(core.dialect.orphans(1)):
            recovered += core.write(recover_orphans(core.dialect, core.now_ms()))
        return recovered

    def _is_gone(self, peer: Peer) -> bool:
        """Dead for sure, by its lock; or silent for its whole lease while we were looking, by our own clock."""
        if ledger.is_dead(self._ledger_of(peer)):
            return True
        now = self._core.clock.monotonic()
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
        begun = ledger.started_jobs(self._ledger_of(peer))
        total = 0
        while True:
            recovered = self._core.write(recover_worker(self._core.dialect, peer.name, begun, self._core.now_ms()))
            total += recovered
            if recovered < RECOVERED_AT_ONCE:
                break
        ledger.remove(self._ledger_of(peer))
        self._seen.pop(peer.name, None)
        logger.warning("worker %s is gone; %d of its jobs were given back", peer.name, total)
        return total
