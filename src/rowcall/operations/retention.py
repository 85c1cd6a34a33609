"""Delete finished jobs by retention, or all jobs; fold counts, and free the space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rowcall.context import logger
from rowcall.domain.job import FINISHED, Pruned
from rowcall.domain.retention import Retention, Rules, retention_from_text, retention_to_text
from rowcall.drivers.database import Connection, MakePlan
from rowcall.drivers.patience import UNLIMITED, patience, with_patience
from rowcall.operations.blobs import collect_blobs
from rowcall.operations.effects import Blocking, EnsureSchema, Read, Write
from rowcall.queue import Operation, Queue
from rowcall.store.batches.finishing import BATCHES_AT_ONCE, fold_batches
from rowcall.store.counts import tallies
from rowcall.store.counts.pruning import prune_group, prune_history
from rowcall.store.counts.samples import add_sample
from rowcall.store.ends.after import repair_edges
from rowcall.store.limits.held_jobs import drop_stale
from rowcall.store.limits.holds_and_breakers import prune_outcomes
from rowcall.store.queries.batches import DROP_LEFT_TALLIES, PRUNE_BATCHES
from rowcall.store.queries.control import CLEAR, RESTART_IDS
from rowcall.store.queries.counts import (
    DROP_SETTING,
    FINISHED_GROUPS,
    MOST_SUMMED,
    NOW,
    PENDING_GROUPS,
    PRUNABLE,
    PUT_SETTING,
    SETTINGS,
    Group,
)
from rowcall.store.queries.limits import PRUNE_HOLDS, PRUNE_STARTS
from rowcall.store.queries.notes import PRUNE_NOTES
from rowcall.store.queries.results import PRUNE_CHANGES, PRUNE_WAITERS
from rowcall.store.statement import Plan

LARGEST_BATCH = 1000
STARTS_AT_ONCE = NOTES_AT_ONCE = 1000
BATCH_SECONDS = 0.015  # of the 50 ms that others wait at most
LONGEST_COUNTED_SECONDS = 0.05
PAUSE_ALONE = 0.2
_COMMON = "retention"
_OF_TASK = "retention of task "


def rules_of(queue: Queue) -> Plan[Rules]:
    """Return the rules: those declared here for the tasks of this process, the published ones for all others."""
    published: dict[str, Retention] = {}
    for name, value in (yield from queue.dialect.ask(SETTINGS)):
        if name == _COMMON or name.startswith(_OF_TASK):
            try:
                published[name] = retention_from_text(value)
            except Exception:  # plain SQL can write anything there
                logger.warning("ignored the setting %r: it is not a retention rule", name)
    own = queue.config.retention or Retention()
    return Rules(
        own,
        elsewhere=queue.config.retention or published.pop(_COMMON, own),
        declared=frozenset(queue.declared.tasks),
        tasks={**_of_others(queue, published), **declared_rules(queue)},
    )


def _of_others(queue: Queue, published: dict[str, Retention]) -> dict[str, Retention]:
    rules = {name.removeprefix(_OF_TASK): rule for name, rule in published.items() if name != _COMMON}
    return {task: rule for task, rule in rules.items() if task not in queue.declared.tasks}


def declared_rules(queue: Queue) -> dict[str, Retention]:
    return {
        name: task.options.retention
        for name, task in queue.declared.tasks.items()
        if task.options.retention is not None
    }


def publish_rules(queue: Queue, known: Mapping[str, str] | None = None) -> None:
    """Publish the rules of this process: others prune too, and may not know its tasks.

    A rule that is no longer declared is withdrawn by the process that declares its task.
    `known` are all that are published.
    """
    if not queue.declared.tasks and queue.config.retention is None:
        return
    rules = {f"{_OF_TASK}{name}": retention_to_text(rule) for name, rule in declared_rules(queue).items()}
    if queue.config.retention is not None:
        rules[_COMMON] = retention_to_text(queue.config.retention)
    known = dict(queue.run(Read(queue.dialect.ask(SETTINGS)))) if known is None else known
    for name, value in sorted(rules.items()):
        if known.get(name) != value:
            queue.run(Write(queue.dialect.ask, PUT_SETTING, name, value))
    for name in sorted({f"{_OF_TASK}{task}" for task in queue.declared.tasks} & known.keys() - rules.keys()):
        queue.run(Write(queue.dialect.ask, DROP_SETTING, name))


class Pruner:
    """Deletes in small batches, each in its own transaction; can stop between any two."""

    def __init__(
        self,
        queue: Queue,
        connection: Connection,
        stopped: Callable[[], bool] = lambda: False,
        noted: Callable[[int], None] = lambda deleted: None,
    ) -> None:
        self._queue = queue
        self._connection = connection
        self._stopped = stopped
        self._noted = noted
        self._counter: int | None = None

    @patience(UNLIMITED)
    def prune(self) -> Counter[str]:
        queue = self._queue
        pruned: Counter[str] = Counter()
        rules = self._connection.read(rules_of(queue))
        for group in self._connection.read(queue.dialect.ask(FINISHED_GROUPS)):
            while not self._stopped():
                deleted = self._delete(group, rules)
                pruned[group.status] += deleted
                if not deleted:
                    break
                self._noted(deleted)
        return +pruned

    def _delete(self, group: Group, rules: Rules) -> int:
        queue = self._queue
        began = queue.clock.timer()

        def go_on() -> bool:
            return queue.clock.timer() - began < BATCH_SECONDS

        plan = prune_group(queue.dialect, group, rules, LARGEST_BATCH, go_on)
        deleted = self._connection.write(plan)
        if deleted:
            queue.clock.sleep(min(queue.clock.timer() - began, LONGEST_COUNTED_SECONDS) * self._pause())
        return deleted

    def _pause(self) -> float:
        """Return how long to pause, in multiples of the time that others waited for the last batch."""
        counter, self._counter = self._counter, self._connection.change_counter()
        is_alone = counter is not None and counter == self._counter
        return PAUSE_ALONE if is_alone else self._queue.database.bulk_pause


def fold(queue: Queue, connection: Connection, stopped: Callable[[], bool] = lambda: False) -> None:
    """Fold tallies, of which a busy minute has thousands, and merge history."""
    steps: list[MakePlan[object]] = [
        lambda: tallies.fold(queue.dialect, everything=True),
        lambda: tallies.fold_history(queue.dialect),
        lambda: fold_batches(queue.dialect),
    ]
    _repeat(connection, steps, stopped)


@patience(UNLIMITED)
def sample(queue: Queue, connection: Connection) -> None:
    """Note how many jobs are pending. They are counted in a read: millions take a second, in which others write."""
    pending = connection.read(queue.dialect.ask(PENDING_GROUPS))
    connection.write(add_sample(queue.dialect, pending))


@patience(UNLIMITED)
def clean_up(queue: Queue, connection: Connection, stopped: Callable[[], bool] = lambda: False) -> None:
    """Fold, delete old history and expired waiters, starts, notes and held jobs, and repair counters."""
    fold(queue, connection, stopped)
    steps: list[MakePlan[object]] = [
        lambda: prune_history(queue.dialect),
        lambda: queue.dialect.ask(PRUNE_WAITERS),
        lambda: queue.dialect.change(PRUNE_CHANGES),
        lambda: queue.dialect.change(PRUNE_STARTS, STARTS_AT_ONCE),
        lambda: queue.dialect.ask(PRUNE_HOLDS),
        lambda: prune_outcomes(queue.dialect),
        lambda: queue.dialect.change(PRUNE_NOTES, NOTES_AT_ONCE),
        lambda: drop_stale(queue.dialect),
        lambda: _prune_batches(queue),
        lambda: queue.dialect.change(DROP_LEFT_TALLIES),
        lambda: repair_edges(queue.dialect),
    ]
    _repeat(connection, steps, stopped)


def _prune_batches(queue: Queue) -> Plan[int]:
    """Delete batches that finished so long ago that no job would be kept, unless they still have jobs."""
    rules = yield from rules_of(queue)
    keeps = [rules.common.keep_seconds(status) for status in FINISHED]
    if None in keeps:
        return 0
    (at_ms,) = yield from queue.dialect.ask(NOW)
    longest = max(keep for keep in keeps if keep is not None)
    return (yield from queue.dialect.change(PRUNE_BATCHES, at_ms - round(longest * 1000), BATCHES_AT_ONCE))


def _repeat(connection: Connection, steps: Sequence[MakePlan[object]], stopped: Callable[[], bool]) -> None:
    """Run each plan, in its own transactions, until it finds nothing more to do."""
    for make_plan in steps:
        while not stopped() and connection.write(make_plan()):
            pass


def prune_now(queue: Queue, noted: Callable[[int], None] = lambda deleted: None) -> Pruned:
    """Delete all jobs whose retention has passed; `noted` is called after each batch."""
    queue.backend.check_outside_block()
    queue.backend.ensure_schema()
    publish_rules(queue)
    connection = queue.database.connect()
    try:
        pruned = Pruner(queue, connection, noted=noted).prune()
        clean_up(queue, connection)
    finally:
        connection.close()
    collect_blobs(queue)  # only the deleted jobs needed these
    return Pruned(jobs=pruned.total(), by_status=_by_status(pruned))


@with_patience(UNLIMITED)
def prune(queue: Queue, *, dry_run: bool = False) -> Operation[Pruned]:
    """Delete finished jobs whose retention has passed, with their history. Workers do it regularly, too."""
    if dry_run:
        return (yield from Read(_would_prune(queue), snapshot=True))
    queue.backend.check_outside_block()
    return (yield from Blocking(prune_now, queue))


def _would_prune(queue: Queue) -> Plan[Pruned]:
    rules = yield from rules_of(queue)
    (at_ms,) = yield from queue.dialect.ask(NOW)
    counted: Counter[str] = Counter()
    for group in (yield from queue.dialect.ask(FINISHED_GROUPS)):
        keep = rules.keep_seconds(*group)
        if keep is not None:
            ((jobs, _),) = yield from queue.dialect.ask(PRUNABLE, *group, at_ms - round(keep * 1000), MOST_SUMMED)
            counted[group.status] += jobs
    return Pruned(jobs=counted.total(), by_status=_by_status(counted), dry_run=True)


@with_patience(UNLIMITED)
def recount(queue: Queue) -> Operation[None]:
    """Count all finished jobs again, after plain SQL has changed the state of jobs, which is not counted.

    Other writers wait until it ends: some seconds if there are millions of jobs.
    """
    yield from Write(tallies.recount, queue.dialect)
    yield from Write(tallies.repair_ready, queue.dialect)


def clear(queue: Queue) -> Operation[None]:
    """Delete all jobs in every state, with their history, counts, pauses and schedules: for tests and scripts.

        @pytest.fixture(autouse=True)
        def no_jobs():
            jobs.clear()

    The next ids follow the last ones. A worker writes its declared schedules again when it starts.
    """
    return delete_all(queue, restart_ids=False)


@with_patience(UNLIMITED)
def delete_all(queue: Queue, *, restart_ids: bool) -> Operation[None]:
    """Delete all jobs, and what is known of them. `restart_ids` only where no worker knows an id of them."""
    yield from Write(_clear, queue, restart_ids)
    yield from Blocking(collect_blobs, queue)


def _clear(queue: Queue, restart_ids: bool) -> Plan[None]:
    for query in CLEAR:
        yield from queue.dialect.ask(query)
    if restart_ids:
        yield from queue.dialect.ask(RESTART_IDS)


def migrate(queue: Queue) -> Operation[tuple[int, int]]:
    """Make or update the tables; return the version found and the version now. Safe from many processes at once."""
    return (yield from Blocking(queue.backend.migrate))


def vacuum(queue: Queue) -> Operation[int]:
    """Free the space of deleted rows, as far as that blocks no one; return how many bytes were freed."""
    queue.backend.check_outside_block()
    yield from EnsureSchema()
    return (yield from Blocking(queue.database.vacuum))


def _by_status(counted: Counter[str]) -> dict[str, int]:
    return {status: counted[status] for status in ("succeeded", "failed", "cancelled")}
