"""The operations on PostgreSQL. Promises are those of `rowcall.store.dialect`.

Many transactions write at once, at READ COMMITTED. So rows that are read in order to be written are locked as they are
read. Claims, staging and recovery skip rows that another transaction has locked; settling goes by id, lease and
holder, in the order of the ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache, partial
from itertools import chain, repeat
from typing import TypeVar, cast

from rowcall.domain.job import Job
from rowcall.store.catalogue import load_catalogue
from rowcall.store.dialect import Dialect, Filter, MoveCode, Order, Place, Span, Version
from rowcall.store.migration import FINGERPRINTS, RECORD_MIGRATION, MigrationPreview, pending, preview
from rowcall.store.new_job import Derived, Inserted, NewJob, fields_of
from rowcall.store.postgres import (
    attention,
    batches,
    blobs,
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
from rowcall.store.postgres.pages import PostgresPages
from rowcall.store.postgres.schema import MIGRATIONS, NEWEST_VERSION
from rowcall.store.postgres.words import array, channel_of, channel_of_ends, render
from rowcall.store.queries import claims as claim_queries
from rowcall.store.queries import ends as end_queries
from rowcall.store.queries import jobs as queries
from rowcall.store.queries.claims import NOTHING_KNOWN, START, Ready, Starts
from rowcall.store.queries.ends import Owner, Success, ids_of
from rowcall.store.queries.flows import TRANSACTION_BEGAN
from rowcall.store.queries.limits import FREE_SLOTS, UNHOLD
from rowcall.store.statement import (
    Catalogue,
    Change,
    Parameter,
    Plan,
    ReadTime,
    Row,
    Statement,
    as_json,
    database_time,
    plain,
)

T = TypeVar("T")

Asked = tuple[str, int, int, int]
_COUNT_CHANGES = "with changed as ({} returning 1) select count(*) from changed"


@cache
def catalogue(prefix: str) -> Catalogue:
    return load_catalogue(
        "postgres",
        (attention, batches, blobs, claims, control, counts, ends, flows, jobs, limits, order, results, steps, workers),
        partial(render, prefix=prefix),
        array,
        _COUNT_CHANGES,
    )


class PostgresDialect:
    one_writer = False
    most_locks = 200
    ids_follow_commits = False

    def __init__(self, prefix: str, now_ms: ReadTime = database_time) -> None:
        self._prefix = prefix
        self._use(catalogue(prefix).timed(now_ms))
        self._pages = PostgresPages(prefix)

    def at(self, now_ms: int) -> Dialect:
        pinned = copy(self)
        pinned._use(self._catalogue.timed(lambda: now_ms))
        return pinned

    def _use(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.ask = catalogue.ask

    def change(self, query: Change, *values: object) -> Plan[int]:
        return (yield from self.ask(query, *values))[0]

    def holds_together(self) -> Plan[bool]:
        return (yield from self.ask(TRANSACTION_BEGAN)) == (yield from self.ask(TRANSACTION_BEGAN))

    @property
    def channel(self) -> str:
        return channel_of(self._prefix)

    @property
    def channel_of_ends(self) -> str:
        return channel_of_ends(self._prefix)

    def notification(self) -> Statement[Row]:
        """Return the statement, its own transaction, that notifies idle workers, if there are any."""
        return self._catalogue.statement(queries.NOTIFY_ALONE)

    # schema

    @property
    def newest_version(self) -> int:
        return NEWEST_VERSION

    def version(self) -> Plan[Version]:
        yield self._statement(schema.WAIT_BRIEFLY)
        if not (yield self._statement(schema.TABLE_EXISTS)):
            return Version(0, 0)
        (row,) = yield self._statement(schema.VERSION_FOUND, NEWEST_VERSION)
        recorded = yield self._statement(FINGERPRINTS)
        return Version.from_rows(row, recorded, MIGRATIONS)

    def migrate(self) -> Plan[tuple[int, int]]:
        yield self._statement(schema.WAIT_BRIEFLY)
        yield self._statement(schema.LOCK_MIGRATIONS)
        # the schema of the tables, even if another schema now precedes it in the search path
        ((namespace,),) = yield self._statement(schema.SCHEMA_TO_MIGRATE)
        if namespace is not None:
            yield self._statement(schema.WORK_IN_SCHEMA, str(namespace))
        if not (yield self._statement(schema.TABLE_EXISTS)):  # a user who may not create tables may call this, too
            yield self._statement(schema.VERSION_TABLE)
        version = yield from self.version()
        version.require_fit(NEWEST_VERSION)
        old_version = version.found
        for migration, statements in pending(MIGRATIONS, schema.CODE, old_version):
            for statement in statements:
                yield plain(render(statement, self._prefix, str(namespace)))
            recorded = (migration.version, migration.name, migration.oldest, migration.fingerprint)
            yield self._statement(RECORD_MIGRATION, self._catalogue.now_ms(), *recorded)
        return old_version, max(old_version, NEWEST_VERSION)

    def preview_migration(self) -> Plan[MigrationPreview]:
        version = yield from self.version()
        version.require_fit(NEWEST_VERSION)
        ((namespace,),) = yield self._statement(schema.SCHEMA_TO_MIGRATE)
        rendered = partial(render, prefix=self._prefix, schema=str(namespace))
        return (yield from preview(MIGRATIONS, schema.CODE, version.found, rendered, schema.LOCKING, self._rows_about))

    def _rows_about(self, table: str) -> Plan[int]:
        estimates = yield self._statement(schema.ROWS_ABOUT, table)
        if not estimates or cast("int", estimates[0][0]) < 0:
            ((counted,),) = yield plain(f"select count(*) from {table}")
            return cast("int", counted)
        return cast("int", estimates[0][0])

    def _statement(self, template: str, *parameters: Parameter) -> Statement[Row]:
        return plain(render(template, self._prefix), *parameters)

    # enqueue

    def insert(
        self, job: NewJob, payloads: Sequence[str], derived: Sequence[Derived] | None = None
    ) -> Plan[list[Inserted]]:
        if len(payloads) == 1 and job.is_plain and self._catalogue.now_ms() is None:
            fields = job.type, job.queue, payloads[0], job.priority, job.max_attempts
            rows = yield self._catalogue.statement(queries.INSERT_PLAIN, *fields)
            job_id, created_at_ms = map(int, cast("tuple[int, int]", rows[0][:2]))  # a caller's codec may return text
            return [Inserted(job_id, "pending", created_at_ms, created_at_ms, None)]
        texts = payloads
        if derived is not None:
            texts = [f"[{text},{as_json(row)[1:]}" for text, row in zip(payloads, derived, strict=True)]
        values = (*fields_of(job, f"[{','.join(texts)}]"), int(derived is not None))
        rows = yield self._catalogue.statement(queries.INSERT, *values)
        ids, status, run_at, created_at, expires_at, _ = cast("tuple[str, str, int, int, int | None, bool]", rows[0])
        return [Inserted(int(job_id), status, run_at, created_at, expires_at) for job_id in ids.split(",")]

    # claim

    def ready_jobs(
        self, queue: str, types: Sequence[str], limit: int, starts: Starts = NOTHING_KNOWN
    ) -> Plan[list[Ready]]:
        asked = _asked(queue, types, starts)
        if len(types) == 1:
            return (yield from self.ask(claim_queries.READY_OF_TYPE, queue, limit, *asked[0]))
        first = yield from self.ask(claim_queries.READY_OF_TYPES, queue, limit, asked)
        if len(first) < limit:
            # another transaction may have locked the first of them, and the shares were computed with those
            rest = yield from self.ask(claim_queries.REST_OF_TYPES, queue, limit, asked)
            ours = {job.id for job in first}
            first += [job for job in sorted(rest, key=Ready.order) if job.id not in ours][: limit - len(first)]
        return sorted(first, key=Ready.order)

    def ready_ahead(self, queue: str, types: Sequence[str], limit: int) -> Plan[list[Ready]]:
        asked = _asked(queue, types, NOTHING_KNOWN)
        ahead = yield from self.ask(claim_queries.READY_AHEAD, queue, limit, asked)
        return sorted(ahead, key=Ready.order)[:limit]

    def claim(
        self, started: Sequence[Ready], buffered: Sequence[Ready], owner: Owner, lease_ms: int | None
    ) -> Plan[set[int] | None]:
        jobs = [*started, *buffered]
        rows = "{" + ",".join([f'"{job.row}"' for job in jobs]) + "}"
        few = min(started, buffered, key=len)
        how = owner.holder, owner.worker, [job.id for job in few], lease_ms, len(jobs), int(few is started)
        (claimed,) = yield from self.ask(claim_queries.CLAIM, rows, *how)
        return None if claimed is None else set(claimed)

    # limits

    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        return (yield from self.ask(FREE_SLOTS, attempts))[0]

    def unhold(self, counts: Mapping[str, int]) -> Plan[int]:
        return self.change(UNHOLD, list(counts.items()))

    # settle

    def settle_successes(self, rows: Sequence[Success], owner: Owner) -> Plan[tuple[set[int], bool]]:
        ids = ids_of(rows)
        leases = _repeated([(row.lease, row.count) for row in rows])
        (taken,) = yield from self.ask(end_queries.TAKE_ALL, ids, leases, owner.holder)
        ours = set(ids if taken is None else taken)
        if taken is not None:
            rows = [row.of(job_id) for row in rows for job_id in row.ids if job_id in ours]
            ids, leases = [row.id for row in rows], [row.lease for row in rows]
        claimed_at = _repeated([(row.claimed_at_ms, row.count) for row in rows])
        started = _repeated(
            [(row.finished_age_ms if row.started_age_ms is None else row.started_age_ms, row.count) for row in rows]
        )
        finished = _repeated([(row.finished_age_ms, row.count) for row in rows])
        results = None
        if any(row.result is not None for row in rows):
            results = f"[{','.join(_repeated([(row.result or 'null', row.count) for row in rows]))}]"
        values = ids, leases, claimed_at, started, finished, results, owner.worker
        ((changed, any_followed),) = yield from self.ask(end_queries.SETTLE_ALL, *values)
        live = ours if changed is None else set(changed)
        if len(live) < len(ours):  # of claims whose jobs were changed from outside
            yield from self.ask(claim_queries.MAKE_READY, sorted(ours - live))
        return live, any_followed

    # moves

    def shared(self, text: str, *parameters: Parameter) -> Plan[list[Row]]:
        return (yield self._statement(text, *parameters))

    def move_code(self) -> Plan[MoveCode]:
        """Also let the transaction wait only briefly for locks, and work where the tables are."""
        yield self._statement(schema.WAIT_BRIEFLY)
        ((namespace,),) = yield self._statement(schema.SCHEMA_TO_MIGRATE)
        yield self._statement(schema.WORK_IN_SCHEMA, str(namespace))
        return moves.move_code(partial(render, prefix=self._prefix, schema=str(namespace)))

    def next_id(self, table: str) -> Plan[int]:
        ((number,),) = yield self._statement(moves.NEXT_ID.format(table))
        return cast("int", number)

    def set_next_id(self, table: str, number: int) -> Plan[None]:
        yield self._statement(moves.SET_ID.format(table), number - 1)

    # callers' connections

    def for_caller(self) -> Plan[Dialect]:
        (namespace,) = yield from self.ask(queries.SCHEMA_OF_TABLES)
        return PostgresDialect(f"{namespace}.{self._prefix}", self._catalogue.now_ms)

    def identity(self) -> Statement[Row]:
        return self._catalogue.statement(queries.IDENTITY)

    # inspect

    units_per_ms = 1000

    def places(self, wanted: Filter, order: Order, span: Span, limit: int, *, by_payload: bool) -> Plan[list[Place]]:
        return self._pages.places(wanted, order, span, limit, by_payload=by_payload)

    def matching(self, wanted: Filter, ids: Sequence[int]) -> Plan[list[Job]]:
        return self._pages.matching(wanted, ids)

    def has_payload_index(self) -> Plan[bool]:
        return self._pages.has_payload_index()


def _asked(queue: str, types: Sequence[str], starts: Starts) -> list[Asked]:
    """Return the types, each with the row behind which to look."""
    return [(task, *(starts.get((queue, task)) or START)) for task in types]


def _repeated(values: Sequence[tuple[T, int]]) -> list[T]:
    """Return each value as often as its count says."""
    return [*chain.from_iterable([repeat(value, count) for value, count in values])]
