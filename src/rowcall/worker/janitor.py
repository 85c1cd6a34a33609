"""Housekeeping beside the loop: counts are folded, history thinned out, old jobs deleted, space given back."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from rowcall.context import logger
from rowcall.drivers.database import Connection
from rowcall.errors import RowcallError
from rowcall.queue.blobs import collect_blobs
from rowcall.queue.core import Core
from rowcall.queue.keeping import Pruner, publish_rules
from rowcall.store.plans import tidy
from rowcall.store.statement import Plan
from rowcall.worker.complaints import Complaints
from rowcall.worker.outage import Outage

ROUND_SECONDS = 30.0
FOLD_EVERY_MS = 20_000
PRUNE_EVERY_MS = 60_000
COLLECT_EVERY_MS = 3_600_000
LAST_BATCH_SECONDS = 2.0
LOOK_SECONDS = 300.0


class Janitor:
    """A thread with a connection of its own. Every worker has one; each duty is done by whoever comes first to it."""

    def __init__(self, core: Core, outage: Outage) -> None:
        self._core = core
        self._outage = outage
        self._complaints = Complaints(core)
        self._looked_at = -LOOK_SECONDS
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._clean, name="rowcall-janitor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join(LAST_BATCH_SECONDS)

    def _clean(self) -> None:
        # not all of a fleet at once, and not while a short-lived worker is just starting
        while not self._stopped.wait(ROUND_SECONDS * random.uniform(0.5, 1.0)):
            connection = self._core.database.connect()
            try:
                self.clean(connection)
                self._outage.over("janitor")
            except RowcallError as error:
                self._outage.noticed("janitor", error)
            except Exception:
                logger.exception("housekeeping failed because of an error of its own")
            finally:
                connection.close()

    def clean(self, connection: Connection) -> None:
        """Each duty whose time has come."""
        publish_rules(self._core)
        if self._core.clock.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = self._core.clock.monotonic()
            self._complaints.look(connection)
        if self._is_ours(connection, "fold", FOLD_EVERY_MS):
            self._repeat(connection, self._fold)
        if self._is_ours(connection, "prune", PRUNE_EVERY_MS):
            pruned = Pruner(self._core, connection, self._stopped.is_set).prune()
            if pruned:
                logger.info("%d finished jobs were kept long enough and are deleted", pruned.total())
                self._core.database.give_back(self._stopped.is_set)
            self._repeat(connection, lambda: tidy.thin_out(self._core.dialect, self._core.now_ms()))
            self._repeat(connection, lambda: tidy.forget(self._core.dialect, self._core.now_ms()))
        if self._is_ours(connection, "collect", COLLECT_EVERY_MS):
            collect_blobs(self._core, stopping=self._stopped.is_set)

    def _fold(self) -> Plan[int]:
        return tidy.fold(self._core.dialect, everything=False, now_ms=self._core.now_ms())

    def _is_ours(self, connection: Connection, duty: str, every_ms: int) -> bool:
        core = self._core
        return connection.write(core.dialect.take_duty(f"duty of {duty}", every_ms, core.now_ms()))

    def _repeat(self, connection: Connection, make_plan: Callable[[], Plan[int]]) -> None:
        """As long as there is something left to do."""
        while not self._stopped.is_set() and connection.write(make_plan()):
            pass
