"""Deleting what was kept long enough, and giving back the space."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

from rowcall.context import logger
from rowcall.drivers.database import Connection
from rowcall.job import Pruned
from rowcall.queue.blobs import collect_blobs
from rowcall.queue.core import Core
from rowcall.retention import Retention, Rules, retention_from_text, retention_to_text
from rowcall.store.plans import tidy
from rowcall.store.records import Group
from rowcall.store.statement import Plan

FIRST_BATCH, LARGEST_BATCH = 100, 2000
BATCH_SECONDS = 0.02  # of the 50 ms that nobody may have to wait
_COMMON = "retention"
_OF_TASK = "retention of task "


def rules_of(core: Core) -> Plan[Rules]:
    """What this process was told, else what others were: the common rule, and those of all tasks anybody declares."""
    published: dict[str, Retention] = {}
    for name, value in (yield from core.dialect.settings()).items():
        if name == _COMMON or name.startswith(_OF_TASK):
            try:
                published[name] = retention_from_text(value)
            except ValueError:
                logger.warning("the setting %r is passed over: it holds no rule of retention", name)
    common = core.config.retention or published.pop(_COMMON, None) or Retention()
    tasks = {name.removeprefix(_OF_TASK): rule for name, rule in published.items() if name != _COMMON}
    return Rules(common, {**tasks, **declared_rules(core)})


def declared_rules(core: Core) -> dict[str, Retention]:
    return {name: task.options.retention for name, task in core.tasks.items() if task.options.retention is not None}


def publish_rules(core: Core) -> None:
    """Tell the other processes how long jobs are kept: they may not know the tasks of this one, and prune too."""
    rules = {f"{_OF_TASK}{name}": retention_to_text(rule) for name, rule in declared_rules(core).items()}
    if core.config.retention is not None:
        rules[_COMMON] = retention_to_text(core.config.retention)
    if not rules:
        return
    known = core.read(core.dialect.settings())
    for name, value in sorted(rules.items()):
        if known.get(name) != value:
            core.write(lambda name=name, value=value: core.dialect.put_setting(name, value))  # type: ignore[misc]


class Pruner:
    """Deletes in small batches, each a transaction of its own; stops between any two."""

    def __init__(
        self,
        core: Core,
        connection: Connection,
        stopped: Callable[[], bool] = lambda: False,
        noted: Callable[[int], None] = lambda deleted: None,
    ) -> None:
        self._core = core
        self._connection = connection
        self._stopped = stopped
        self._noted = noted
        self._batch = FIRST_BATCH

    def prune(self) -> Counter[str]:
        core = self._core
        pruned: Counter[str] = Counter()
        rules = self._connection.read(rules_of(core))
        for group in self._connection.read(core.dialect.finished_groups()):
            while not self._stopped():
                deleted = self._delete(group, rules)
                pruned[group.status] += deleted
                if not deleted:
                    break
                self._noted(deleted)
        return +pruned

    def _delete(self, group: Group, rules: Rules) -> int:
        core = self._core
        batch = self._batch
        began = time.monotonic()
        deleted = self._connection.write(tidy.prune(core.dialect, group, rules, batch, core.now_ms()))
        seconds = time.monotonic() - began
        if seconds > BATCH_SECONDS:
            self._batch = max(1, batch // 2)
        elif deleted == batch and seconds < BATCH_SECONDS / 2:
            self._batch = min(batch * 2, LARGEST_BATCH)
        if deleted:
            time.sleep(min(seconds, BATCH_SECONDS))  # as long as others had to wait for us, they come first
        return deleted


def prune_now(core: Core, noted: Callable[[int], None] = lambda deleted: None) -> Pruned:
    """Delete all that was kept long enough; `noted` is told of each batch."""
    core.ensure_schema()
    publish_rules(core)
    connection = core.database.connect()
    try:
        pruned = Pruner(core, connection, noted=noted).prune()
    finally:
        connection.close()
    collect_blobs(core)  # what only they needed
    return Pruned(jobs=pruned.total(), by_status=_by_status(pruned))


class Keeping(Core):
    def prune(self, *, dry_run: bool = False) -> Pruned:
        """Delete finished jobs that were kept long enough, with their history. Workers do the same by themselves."""
        if dry_run:
            return self.read_together(self._would_prune)
        return prune_now(self)

    async def aprune(self, *, dry_run: bool = False) -> Pruned:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self.prune(dry_run=dry_run))

    def _would_prune(self) -> Plan[Pruned]:
        rules = yield from rules_of(self)
        at_ms = yield from self.dialect.now(self.now_ms())
        counted: Counter[str] = Counter()
        for group in (yield from self.dialect.finished_groups()):
            keep = rules.keep_seconds(*group)
            if keep is not None:
                counted[group.status] += (yield from self.dialect.doomed(group, at_ms - round(keep * 1000))).jobs
        return Pruned(jobs=counted.total(), by_status=_by_status(counted), dry_run=True)

    def vacuum(self) -> int:
        """Give back the space of what was deleted, as far as that hinders nobody; gives the bytes that were freed."""
        self.ensure_schema()
        return self.database.vacuum()

    async def avacuum(self) -> int:
        return await asyncio.get_running_loop().run_in_executor(None, self.vacuum)


def _by_status(counted: Counter[str]) -> dict[str, int]:
    return {status: counted[status] for status in ("succeeded", "failed", "cancelled")}
