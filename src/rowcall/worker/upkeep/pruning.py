"""Housekeeping beside the loop: counts are folded, history thinned out, old jobs deleted, space given back."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import NamedTuple

from rowcall.context import logger
from rowcall.domain.errors import RowcallError
from rowcall.drivers.database import Connection
from rowcall.queue.blobs import collect_blobs
from rowcall.queue.core import Core
from rowcall.queue.keeping import Pruner, publish_rules, tidy_up
from rowcall.store.counts import folding
from rowcall.store.records import Chores
from rowcall.worker.loop.outage import Outage
from rowcall.worker.upkeep.health_log import Complaints

ROUND_SECONDS = 30.0
FOLD_EVERY_MS = 20_000
PRUNE_EVERY_MS = 60_000
TIDY_EVERY_MS = 600_000
COLLECT_EVERY_MS = 3_600_000
LAST_BATCH_SECONDS = 2.0
LOOK_SECONDS = 300.0


class Duty(NamedTuple):
    name: str
    every_ms: int
    do: Callable[[Connection], object]

    @property
    def setting(self) -> str:
        """Where all processes can see when it was last done."""
        return f"duty of {self.name}"


class Janitor:
    """A thread of its own. Every worker has one; each duty is done by whoever comes first to it."""

    def __init__(self, core: Core, outage: Outage) -> None:
        self._core = core
        self._outage = outage
        self._complaints = Complaints(core)
        self._looked_at = -LOOK_SECONDS
        self._pruned = True
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
            try:
                self.round()
                self._outage.over("janitor")
            except RowcallError as error:
                self._outage.noticed("janitor", error)
            except Exception:
                logger.exception("housekeeping failed because of an error of its own")

    def round(self) -> None:
        """One cheap question; a connection is made only if there is something to do."""
        core = self._core
        chores = core.read(core.dialect.chores(core.now_ms()))
        publish_rules(core, chores.settings)
        duties = [duty for duty in self._duties(chores.any_tally) if _is_due(duty, chores)]
        is_to_look = core.clock.monotonic() - self._looked_at >= LOOK_SECONDS
        if not (duties or is_to_look):
            return
        connection = core.database.connect()
        try:
            if is_to_look:
                self._looked_at = core.clock.monotonic()
                self._complaints.look(connection)
            for duty in duties:
                if not self._stopped.is_set() and self._is_ours(connection, duty):
                    duty.do(connection)
        finally:
            connection.close()

    def _duties(self, any_tally: bool) -> list[Duty]:
        return [
            *([Duty("fold", FOLD_EVERY_MS, self._fold)] if any_tally else []),
            Duty("prune", PRUNE_EVERY_MS if self._pruned else TIDY_EVERY_MS, self._prune),
            Duty("tidy", TIDY_EVERY_MS, lambda connection: tidy_up(self._core, connection, self._stopped.is_set)),
            Duty("collect", COLLECT_EVERY_MS, lambda _: collect_blobs(self._core, stopping=self._stopped.is_set)),
        ]

    def _fold(self, connection: Connection) -> None:
        core = self._core
        while not self._stopped.is_set() and connection.write(
            folding.fold(core.dialect, everything=False, now_ms=core.now_ms())
        ):
            pass

    def _prune(self, connection: Connection) -> None:
        pruned = Pruner(self._core, connection, self._stopped.is_set).prune()
        self._pruned = bool(pruned)  # where nothing was old enough, nothing will be for a while
        if pruned:
            logger.info("%d finished jobs were kept long enough and are deleted", pruned.total())
            self._core.database.give_back(self._stopped.is_set)

    def _is_ours(self, connection: Connection, duty: Duty) -> bool:
        core = self._core
        return connection.write_one_statement(core.dialect.take_duty(duty.setting, duty.every_ms, core.now_ms()))


def _is_due(duty: Duty, chores: Chores) -> bool:
    done_at = chores.settings.get(duty.setting)
    if done_at is None or not done_at.isdecimal():
        return True
    return not chores.at_ms - duty.every_ms < int(done_at) <= chores.at_ms
