"""The operations on SQLite. Promises are those of `rowcall.store.dialect`.

SQLite has one writer at a time, and write transactions begin IMMEDIATE: what is read inside one stays true until its
commit. So a claim may be a read followed by a write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache, partial
from operator import attrgetter
from typing import cast

import msgspec

from rowcall.domain.job import Job
from rowcall.store.catalogue import load_catalogue
from rowcall.store.dialect import Dialect, Filter, MoveCode, Order, Place, Span, Version
from rowcall.store.migration import FINGERPRINTS, RECORD_MIGRATION, MigrationPreview, pending, preview
from rowcall.store.new_job import Derived, Inserted, NewJob, fields_of
from rowcall.store.queries import claims as claim_queries
from rowcall.store.queries import ends as end_queries
from rowcall.store.queries import jobs as queries
from rowcall.store.queries.claims import NOTHING_KNOWN, Ready, Starts, key_of
from rowcall.store.queries.ends import Owner, Success, ids_of, runs_of
from rowcall.store.queries.flows import BEGIN_WRITING, DEFER, DEFER_NO_MORE, DEFERRING, READ_SOMETHING
from rowcall.store.queries.limits import DELETE_SLOTS, SLOTS_OF, UNHOLD_FIRST, UNHOLD_SOME
from rowcall.store.sqlite import (
    attention,
    batches,
    claims,
    control,
    counts,
    ends,
    flows,
    jobs,
    limits,
    moves,
    order,
    results,
    schema,
    steps,
    workers,
)
from rowcall.store.sqlite.pages import SqlitePages
from rowcall.store.sqlite.schema import MIGRATIONS, NEWEST_VERSION
from rowcall.store.sqlite.words import render
from rowcall.store.statement import (
    Catalogue,
    Change,
    Parameter,
    Plan,
    ReadTime,
    Row,
    Statement,
    as_is,
    as_json,
    database_time,
    plain,
)

MOST_TYPES_MERGED = 256  # SQLite merges 500 at most
LEAST_BULK = 16

_ready = msgspec.json.Decoder(list[Ready])
_KIND = attrgetter("queue", "type", "unfit", "priority", "lease")


@cache
def catalogue(prefix: str) -> Catalogue:
    return load_catalogue(
        "sqlite",
        (attention, batches, claims, control, counts, ends, flows, jobs, limits, order, results, steps, workers),
        partial(render, prefix=prefix),
        packed=True,
    )


class SqliteDialect:
    one_writer = True
    most_locks = 2000
    ids_follow_commits = True

    def __init__(self, prefix: str, now_ms: ReadTime = database_time, *, for_caller: bool = False) -> None:
        self._prefix = prefix
        self._for_caller = for_caller
        self._use(catalogue(prefix).timed(now_ms))
        self._pages = SqlitePages(prefix)
        self._ready_jobs: dict[int, str] = {}

    def at(self, now_ms: int) -> Dialect:
        pinned = copy(self)
        pinned._use(self._catalogue.timed(lambda: now_ms))
        return pinned

    def _use(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.ask = catalogue.ask

    def change(self, query: Change, *values: object) -> Plan[int]:
        yield self._catalogue.statement(query, *values)
        return (yield from self._changed())

    def _changed(self) -> Plan[int]:
        ((changed,),) = yield self._catalogue.statement(end_queries.CHANGES)
        return cast("int", changed)

    def holds_together(self) -> Plan[bool]:
        yield from self.ask(BEGIN_WRITING)  # with which sqlite3 begins a transaction, if it does so on its own
        # the only setting that SQLite resets at each commit
        (was_on,) = yield from self.ask(DEFERRING)
        yield from self.ask(DEFER)
        yield from self.ask(READ_SOMETHING)
        (is_on,) = yield from self.ask(DEFERRING)
        if is_on and not was_on:
            yield from self.ask(DEFER_NO_MORE)
        return bool(is_on)

    # schema

    @property
    def newest_version(self) -> int:
        return NEWEST_VERSION

    def version(self) -> Plan[Version]:
        if not (yield self._statement(schema.TABLE_EXISTS)):
            return Version(0, 0)
        (row,) = yield self._statement(schema.VERSION_FOUND, NEWEST_VERSION)
        recorded = yield self._statement(FINGERPRINTS)
        return Version.from_rows(row, recorded, MIGRATIONS)

    def migrate(self) -> Plan[tuple[int, int]]:
        yield self._statement(schema.VERSION_TABLE)
        version = yield from self.version()
        version.require_fit(NEWEST_VERSION)
        old_version = version.found
        for migration, statements in pending(MIGRATIONS, schema.CODE, old_version):
            for statement in statements:
                yield self._statement(statement)
            recorded = (migration.version, migration.name, migration.oldest, migration.fingerprint)
            yield self._statement(RECORD_MIGRATION, self._catalogue.now_ms(), *recorded)
        return old_version, max(old_version, NEWEST_VERSION)

    def preview_migration(self) -> Plan[MigrationPreview]:
        version = yield from self.version()
        version.require_fit(NEWEST_VERSION)
        rendered = partial(render, prefix=self._prefix)
        return (yield from preview(MIGRATIONS, schema.CODE, version.found, rendered, schema.LOCKING, _count_rows))

    def _statement(self, template: str, *parameters: Parameter) -> Statement[Row]:
        return plain(render(template, self._prefix), *parameters)

    # enqueue

    def insert(
        self, job: NewJob, payloads: Sequence[str], derived: Sequence[Derived] | None = None
    ) -> Plan[list[Inserted]]:
        if len(payloads) == 1 and job.is_plain and self._catalogue.now_ms() is None:
            fields = job.type, job.queue, payloads[0], job.priority, job.max_attempts
            rows = yield self._catalogue.statement(queries.INSERT_PLAIN, *fields)
            ((job_id, created_at_ms),) = cast("list[tuple[int, int]]", rows)
            return [Inserted(job_id, "pending", created_at_ms, created_at_ms, None)]
        texts = payloads if derived is None else [(text, *row) for text, row in zip(payloads, derived, strict=True)]
        values = (*fields_of(job, as_json(texts)), int(derived is not None))
        if self._for_caller or len(payloads) < LEAST_BULK:  # several threads may use a caller's connection
            inserted = yield from self.ask(queries.INSERT_RETURNING, *values)
            return sorted(inserted, key=attrgetter("id"))
        is_bulk = derived is None or derived[0].fair is None
        if is_bulk:
            yield from self.ask(queries.BEGIN_BULK)
        yield from self.ask(queries.INSERT, *values)
        (last,) = yield from self.ask(queries.LAST_INSERTED)
        # AUTOINCREMENT under the write lock: the ids of one INSERT are consecutive
        ids = range(last.id - len(payloads) + 1, last.id + 1)
        if is_bulk:
            yield from self.ask(queries.MAKE_BULK_READY)
            yield from self.ask(queries.END_BULK)
        return [Inserted(job_id, last.status, last.run_at_ms, last.created_at_ms, last.expires_at_ms) for job_id in ids]

    # claim

    def ready_jobs(
        self, queue: str, types: Sequence[str], limit: int, starts: Starts = NOTHING_KNOWN
    ) -> Plan[list[Ready]]:
        if len(types) > MOST_TYPES_MERGED:
            found = yield from self.ready_jobs(queue, types[:MOST_TYPES_MERGED], limit)
            found += yield from self.ready_jobs(queue, types[MOST_TYPES_MERGED:], limit)
            return sorted(found, key=Ready.order)[:limit]
        # one text per power of two keeps the statement cache small; a type that is given twice would be claimed twice
        arms = 1 << (len(types) - 1).bit_length()
        if arms not in self._ready_jobs:
            self._ready_jobs[arms] = render(claims.ready_jobs(arms), self._prefix)
        padding: list[Parameter] = [None] * (arms - len(types))
        values = (self._catalogue.now_ms(), queue, limit, *types, *padding)
        rows = yield Statement(self._ready_jobs[arms], values, as_is)
        return _ready.decode(cast("str", rows[0][0]))

    def ready_ahead(self, queue: str, types: Sequence[str], limit: int) -> Plan[list[Ready]]:
        return self.ready_jobs(queue, types, limit)

    def claim(
        self, started: Sequence[Ready], buffered: Sequence[Ready], owner: Owner, lease_ms: int | None
    ) -> Plan[set[int] | None]:
        claimed = 0
        for group, are_started in ((started, 1), (buffered, 0)):
            for (queue, task, unfit, priority, lease), of_kind in _by_kind(group).items():
                ids = [job.id for job in of_kind]
                turns = [job.id if job.turn is None else job.turn for job in of_kind]
                first, last = min(zip(turns, ids, strict=True)), max(zip(turns, ids, strict=True))
                is_run = turns == ids and last[0] - first[0] == len(ids) - 1
                rows = queue, key_of(task, unfit), ~priority, *first, *last, None if is_run else ids
                how = owner.holder, owner.worker, are_started, lease_ms, lease
                claimed += yield from self.change(claim_queries.CLAIM_ROWS, *rows, *how)
                yield from self.ask(claim_queries.DELETE_READY, *rows)
        ids = [job.id for job in (*started, *buffered)]
        if claimed == len(ids):
            return None
        return set((yield from self.ask(claim_queries.CLAIMED_BY, ids, owner.holder)))

    # limits

    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        # not as_json of a dict: one job may come with two leases
        leases = ",".join([f'"{job_id}":{lease}' for job_id, lease in set(attempts)]).replace("None", "null")
        leases_json = "{" + leases + "}"
        (keys,) = yield from self.ask(SLOTS_OF, leases_json)
        if keys:  # a second statement: RETURNING takes SQLite twice as long
            yield from self.ask(DELETE_SLOTS, leases_json)
        return keys

    def unhold(self, counts: Mapping[str, int]) -> Plan[int]:
        changed = 0
        if ones := [held for held, count in counts.items() if count == 1]:
            changed += yield from self.change(UNHOLD_FIRST, ones)
        for held, count in counts.items():
            if count > 1:
                changed += yield from self.change(UNHOLD_SOME, held, count)
        return changed

    # settle

    def settle_successes(self, rows: Sequence[Success], owner: Owner) -> Plan[tuple[set[int], bool]]:
        # nearly always all claims are there, and no job was changed, as the numbers of rows show; if not, ask which
        ids, runs = ids_of(rows), runs_of(rows)
        yield from self.ask(end_queries.SAVEPOINT)
        yield from self.ask(end_queries.TAKE_RUNS, runs, owner.holder)
        if (yield from self._changed()) == len(ids):
            yield from self.ask(end_queries.SETTLE_SUCCESSES, rows, owner.worker)
            if (yield from self._changed()) == len(ids):
                return set(ids), False
        yield from self.ask(end_queries.BACK_TO_SAVEPOINT)
        held = set((yield from self.ask(end_queries.STILL_HELD, runs, owner.holder)))
        yield from self.ask(end_queries.TAKE_RUNS, runs, owner.holder)
        ours = [row.of(job_id) for row in rows for job_id in row.ids if job_id in held]
        live = set((yield from self.ask(end_queries.LIVE, [(row.id, row.lease) for row in ours])))
        settled = [row for row in ours if row.id in live]
        yield from self.ask(end_queries.SETTLE_SUCCESSES, settled, owner.worker)
        yield from self.ask(claim_queries.MAKE_READY, sorted(held - live))
        return live, False

    # moves

    def shared(self, text: str, *parameters: Parameter) -> Plan[list[Row]]:
        return (yield self._statement(text, *parameters))

    def move_code(self) -> Plan[MoveCode]:
        yield from ()
        return moves.move_code(partial(render, prefix=self._prefix))

    def next_id(self, table: str) -> Plan[int]:
        ((number,),) = yield self._statement(moves.NEXT_ID.format(table))
        return cast("int", number)

    def set_next_id(self, table: str, number: int) -> Plan[None]:
        yield self._statement(moves.FORGET_ID.format(table), number - 1)
        yield self._statement(moves.SET_ID.format(table), number - 1)

    # callers' connections

    def for_caller(self) -> Plan[Dialect]:
        yield from ()
        return SqliteDialect(self._prefix, self._catalogue.now_ms, for_caller=True)

    def identity(self) -> None:
        return None

    # inspect

    units_per_ms = 1

    def places(self, wanted: Filter, order: Order, span: Span, limit: int, *, by_payload: bool) -> Plan[list[Place]]:
        return self._pages.places(wanted, order, span, limit)

    def matching(self, wanted: Filter, ids: Sequence[int]) -> Plan[list[Job]]:
        return self._pages.matching(wanted, ids)

    def has_payload_index(self) -> Plan[bool]:
        yield from ()
        return False


def _count_rows(table: str) -> Plan[int]:
    ((count,),) = yield plain(f"select count(*) from {table}")
    return cast("int", count)


def _by_kind(jobs: Sequence[Ready]) -> dict[tuple[str, str, str | None, int, int], Sequence[Ready]]:
    """Return the jobs by queue, type, refusals, priority and lease."""
    kinds = set(map(_KIND, jobs))
    if len(kinds) == 1:
        return {kinds.pop(): jobs}
    by_kind: dict[tuple[str, str, str | None, int, int], list[Ready]] = {kind: [] for kind in kinds}
    for job in jobs:
        by_kind[_KIND(job)].append(job)
    return {**by_kind}
