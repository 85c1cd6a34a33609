"""Folds tallies, prunes history and old jobs, counts what is pending, frees disk space.

The first worker that finds a duty due does it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from rowcall.base.clock import jittered
from rowcall.context import logger
from rowcall.drivers.database import Connection
from rowcall.operations.blobs import collect_blobs
from rowcall.operations.effects import Read, Write
from rowcall.operations.retention import Pruner, clean_up, fold, publish_rules, sample
from rowcall.overview.stacks import stale_requests
from rowcall.queue import Queue
from rowcall.store.queries.counts import DROP_SETTING, DUTY_PREFIX, ONCE_EVERY, UPKEEP_STATE, UpkeepState
from rowcall.worker.pace import (
    CLEAN_UP_EVERY_MS,
    COLLECT_EVERY_MS,
    FOLD_EVERY_MS,
    HEALTH_SECONDS,
    PRUNE_EVERY_MS,
    SAMPLE_EVERY_MS,
    SAMPLE_SHARE,
    UPKEEP_SECONDS,
)
from rowcall.worker.service import Background, Stopping, never
from rowcall.worker.upkeep.health_log import log_health


class Duty(NamedTuple):
    name: str
    every_ms: int
    do: Callable[[Connection, Stopping], object]

    @property
    def setting(self) -> str:
        """The name of the setting that says when it was last done, by any process."""
        return f"{DUTY_PREFIX}{self.name}"


class PruningDuties:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._health_logged_at = -HEALTH_SECONDS
        self._pruned = True
        self._sample_ms = 0.0

    def run(self, thread: Background) -> None:
        # not the whole fleet at once, and not while a worker is starting
        while thread.pause(jittered(self._queue.clock, UPKEEP_SECONDS)):
            thread.attempt(lambda: self.round(thread.stopping))

    def round(self, stopping: Stopping = never) -> None:
        """Make one cheap read; open a connection only if there is something to do."""
        queue = self._queue
        (state,) = queue.run(Read(queue.dialect.ask(UPKEEP_STATE)))
        publish_rules(queue, state.settings)
        for request in stale_requests(state.settings, state.at_ms):
            queue.run(Write(queue.dialect.ask, DROP_SETTING, request))
        duties = [duty for duty in self._duties(state.any_tally) if _is_due(duty, state)]
        is_health_due = queue.clock.monotonic() - self._health_logged_at >= HEALTH_SECONDS
        if not (duties or is_health_due):
            return
        with closing(queue.database.connect()) as connection:
            if is_health_due:
                self._health_logged_at = queue.clock.monotonic()
                log_health(queue, connection)
            for duty in duties:
                if not stopping() and self._is_ours(connection, duty):
                    duty.do(connection, stopping)

    def _duties(self, any_tally: bool) -> list[Duty]:
        return [
            *([self._of_queue("fold", FOLD_EVERY_MS, fold)] if any_tally else []),
            Duty("prune", PRUNE_EVERY_MS if self._pruned else CLEAN_UP_EVERY_MS, self._prune),
            Duty("sample", max(SAMPLE_EVERY_MS, round(SAMPLE_SHARE * self._sample_ms)), self._sample),
            self._of_queue("clean up", CLEAN_UP_EVERY_MS, clean_up),
            Duty("collect", COLLECT_EVERY_MS, lambda _, stopping: collect_blobs(self._queue, stopping=stopping)),
        ]

    def _of_queue(self, name: str, every_ms: int, do: Callable[[Queue, Connection, Stopping], object]) -> Duty:
        return Duty(name, every_ms, lambda connection, stopping: do(self._queue, connection, stopping))

    def _prune(self, connection: Connection, stopping: Stopping) -> None:
        pruned = Pruner(self._queue, connection, stopping).prune()
        self._pruned = bool(pruned)  # if nothing was old enough, nothing will be for a while
        if pruned:
            logger.info("pruned %d finished jobs", pruned.total())
            self._queue.database.shrink(stopping)

    def _sample(self, connection: Connection, stopping: Stopping) -> None:
        began = self._queue.clock.monotonic()
        sample(self._queue, connection)
        self._sample_ms = 1000 * (self._queue.clock.monotonic() - began)

    def _is_ours(self, connection: Connection, duty: Duty) -> bool:
        """Return whether no other process has done it since it fell due."""
        queue = self._queue
        ask = queue.dialect.ask(ONCE_EVERY, duty.setting, duty.every_ms)
        return bool(connection.write(ask, one_statement=True))


def _is_due(duty: Duty, state: UpkeepState) -> bool:
    done_at = state.settings.get(duty.setting)
    if done_at is None or not done_at.isdecimal():
        return True
    return not state.at_ms - duty.every_ms < int(done_at) <= state.at_ms
