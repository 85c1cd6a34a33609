"""Deleting what was kept long enough, and giving back the space."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from rowcall.context import logger
from rowcall.domain.job import Pruned
from rowcall.domain.retention import Retention, Rules, retention_from_text, retention_to_text
from rowcall.drivers.database import Connection, MakePlan
from rowcall.operations.blobs import collect_blobs
from rowcall.queue import Queue
from rowcall.store.counts import folding
from rowcall.store.counts.queries import (
    DROP_SETTING,
    FINISHED_GROUPS,
    NOW,
    PRUNABLE,
    PUT_SETTING,
    SETTINGS,
    Group,
)
from rowcall.store.flows.blockers import mend
from rowcall.store.limits.held_jobs import drop_stale
from rowcall.store.limits.queries import PRUNE_STARTS
from rowcall.store.results.queries import PRUNE_WAITERS
from rowcall.store.statement import Plan

LARGEST_BATCH = 1000
STARTS_AT_ONCE = 1000
BATCH_SECONDS = 0.015  # of the 50 ms that nobody may have to wait
LONGEST_COUNTED_SECONDS = 0.05
PAUSE_BESIDE_OTHERS, PAUSE_ALONE, PAUSE_ON_A_SERVER = 5.0, 0.2, 1.0
_COMMON = "retention"
_OF_TASK = "retention of task "


def rules_of(core: Queue) -> Plan[Rules]:
    """For the tasks of this process what it was told, for those of others what they have published."""
    published: dict[str, Retention] = {}
    for name, value in (yield from core.dialect.ask(SETTINGS)):
        if name == _COMMON or name.startswith(_OF_TASK):
            try:
                published[name] = retention_from_text(value)
            except Exception:  # plain SQL can write anything there
                logger.warning("the setting %r is passed over: it holds no rule of retention", name)
    own = core.config.retention or Retention()
    return Rules(
        own,
        elsewhere=core.config.retention or published.pop(_COMMON, own),
        declared=frozenset(core.tasks),
        tasks={**_of_others(core, published), **declared_rules(core)},
    )


def _of_others(core: Queue, published: dict[str, Retention]) -> dict[str, Retention]:
    rules = {name.removeprefix(_OF_TASK): rule for name, rule in published.items() if name != _COMMON}
    return {task: rule for task, rule in rules.items() if task not in core.tasks}


def declared_rules(core: Queue) -> dict[str, Retention]:
    return {name: task.options.retention for name, task in core.tasks.items() if task.options.retention is not None}


def publish_rules(core: Queue, known: Mapping[str, str] | None = None) -> None:
    """Tell the other processes how long jobs are kept: they may not know the tasks of this one, and prune too.

    A rule that is no longer declared is withdrawn by whoever declares its task. `known` is what has been published.
    """
    if not core.tasks and core.config.retention is None:
        return
    rules = {f"{_OF_TASK}{name}": retention_to_text(rule) for name, rule in declared_rules(core).items()}
    if core.config.retention is not None:
        rules[_COMMON] = retention_to_text(core.config.retention)
    known = dict(core.read(core.dialect.ask(SETTINGS))) if known is None else known
    for name, value in sorted(rules.items()):
        if known.get(name) != value:
            core.write(partial(core.dialect.ask, PUT_SETTING, name, value))
    for name in sorted({f"{_OF_TASK}{task}" for task in core.tasks} & known.keys() - rules.keys()):
        core.write(partial(core.dialect.ask, DROP_SETTING, name))


class Pruner:
    """Deletes in small batches, each a transaction of its own; stops between any two."""

    def __init__(
        self,
        core: Queue,
        connection: Connection,
        stopped: Callable[[], bool] = lambda: False,
        noted: Callable[[int], None] = lambda deleted: None,
    ) -> None:
        self._core = core
        self._connection = connection
        self._stopped = stopped
        self._noted = noted
        self._counter: int | None = None

    def prune(self) -> Counter[str]:
        core = self._core
        pruned: Counter[str] = Counter()
        rules = self._connection.read(rules_of(core))
        for group in self._connection.read(core.dialect.ask(FINISHED_GROUPS)):
            while not self._stopped():
                deleted = self._delete(group, rules)
                pruned[group.status] += deleted
                if not deleted:
                    break
                self._noted(deleted)
        return +pruned

    def _delete(self, group: Group, rules: Rules) -> int:
        core = self._core
        began = time.monotonic()

        def go_on() -> bool:
            return time.monotonic() - began < BATCH_SECONDS

        plan = folding.prune(core.dialect, group, rules, LARGEST_BATCH, go_on, core.now_ms())
        deleted = self._connection.write(plan)
        if deleted:
            time.sleep(min(time.monotonic() - began, LONGEST_COUNTED_SECONDS) * self._pause())
        return deleted

    def _pause(self) -> float:
        """How many times as long as others had to wait for us they come first now: in a file, if there are any."""
        counter, self._counter = self._counter, self._connection.change_counter()
        if self._counter is None:
            return PAUSE_ON_A_SERVER
        return PAUSE_BESIDE_OTHERS if counter != self._counter else PAUSE_ALONE


def tidy_up(core: Queue, connection: Connection, stopped: Callable[[], bool] = lambda: False) -> None:
    """Fold what was counted, make hours of old minutes, forget what is older still, and starts that no limit counts."""
    steps: list[MakePlan[object]] = [
        lambda: folding.fold(core.dialect, everything=False, now_ms=core.now_ms()),
        lambda: folding.thin_out(core.dialect, core.now_ms()),
        lambda: folding.forget(core.dialect, core.now_ms()),
        lambda: core.dialect.ask(PRUNE_WAITERS, core.now_ms()),
        lambda: core.dialect.change(PRUNE_STARTS, core.now_ms(), STARTS_AT_ONCE),
        lambda: drop_stale(core.dialect),
        lambda: mend(core.dialect, core.now_ms()),
    ]
    for make_plan in steps:
        while not stopped() and connection.write(make_plan()):
            pass


def prune_now(core: Queue, noted: Callable[[int], None] = lambda deleted: None) -> Pruned:
    """Delete all that was kept long enough; `noted` is told of each batch."""
    core.check_outside_block()
    core.ensure_schema()
    publish_rules(core)
    connection = core.database.connect()
    try:
        pruned = Pruner(core, connection, noted=noted).prune()
        tidy_up(core, connection)
    finally:
        connection.close()
    collect_blobs(core)  # what only they needed
    return Pruned(jobs=pruned.total(), by_status=_by_status(pruned))


class Keeping(Queue):
    def prune(self, *, dry_run: bool = False) -> Pruned:
        """Delete finished jobs that were kept long enough, with their history. Workers do the same by themselves."""
        if dry_run:
            return self.read_together(self._would_prune)
        return prune_now(self)

    async def aprune(self, *, dry_run: bool = False) -> Pruned:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self.prune(dry_run=dry_run))

    def _would_prune(self) -> Plan[Pruned]:
        rules = yield from rules_of(self)
        (at_ms,) = yield from self.dialect.ask(NOW, self.now_ms())
        counted: Counter[str] = Counter()
        for group in (yield from self.dialect.ask(FINISHED_GROUPS)):
            keep = rules.keep_seconds(*group)
            if keep is not None:
                ((jobs, _),) = yield from self.dialect.ask(PRUNABLE, *group, at_ms - round(keep * 1000))
                counted[group.status] += jobs
        return Pruned(jobs=counted.total(), by_status=_by_status(counted), dry_run=True)

    def recount(self) -> None:
        """Count all finished jobs anew: after somebody has changed the state of jobs by plain SQL, which nobody counts.

        Others wait meanwhile, some seconds where there are millions of jobs.
        """
        self.write(lambda: folding.recount(self.dialect))

    async def arecount(self) -> None:
        await self.awrite(lambda: folding.recount(self.dialect))

    def vacuum(self) -> int:
        """Give back the space of what was deleted, as far as that hinders nobody; gives the bytes that were freed."""
        self.check_outside_block()
        self.ensure_schema()
        return self.database.vacuum()

    async def avacuum(self) -> int:
        return await asyncio.get_running_loop().run_in_executor(None, self.vacuum)


def _by_status(counted: Counter[str]) -> dict[str, int]:
    return {status: counted[status] for status in ("succeeded", "failed", "cancelled")}
