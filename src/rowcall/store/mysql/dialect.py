"""The operations on MariaDB and MySQL. Promises are those of `rowcall.store.dialect`.

Many transactions write at once, at READ COMMITTED, and rows that are read in order to be written are locked as they are
read, as on PostgreSQL. The servers find rows by lists of ids, and change joins; subqueries of a change would be run for
each row of its table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache, partial
from operator import attrgetter
from typing import cast

import msgspec

from rowcall.domain.job import Job
from rowcall.store.catalogue import load_catalogue
from rowcall.store.dialect import Dialect, Filter, MoveCode, Order, Place, Span, Version
from rowcall.store.migration import MigrationPreview, preview
from rowcall.store.mysql import (
    alerts,
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
    notes,
    order,
    results,
    steps,
    workers,
)
from rowcall.store.mysql.pages import MysqlPages
from rowcall.store.mysql.schema import CODE, LOCKING, MIGRATIONS, NEWEST_VERSION
from rowcall.store.mysql.tables import MysqlTables
from rowcall.store.mysql.words import adapted, render
from rowcall.store.new_job import Derived, Inserted, NewJob, fields_of
from rowcall.store.queries import claims as claim_queries
from rowcall.store.queries import ends as end_queries
from rowcall.store.queries import jobs as queries
from rowcall.store.queries.claims import NOTHING_KNOWN, RELEASE_SAVEPOINT, SAVEPOINT, START, Ready, Starts, key_of
from rowcall.store.queries.ends import Owner, Success
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
    first,
    number_from_row,
    plain,
)

_CHANGED = Statement("select row_count()", (), number_from_row)
_ids = msgspec.json.Decoder(list[int])


@cache
def catalogue(prefix: str) -> Catalogue:
    return load_catalogue(
        "mysql",
        (
            *(alerts, attention, batches, blobs, claims, control, counts, ends, flows, jobs, limits, notes),
            *(order, results, steps, workers),
        ),
        partial(render, prefix=prefix),
        adapted=adapted,
        in_parts=True,
        has_booleans=False,
    )


class MysqlDialect:
    one_writer = False
    most_locks = 200
    ids_follow_commits = False

    def __init__(self, prefix: str, now_ms: ReadTime = database_time) -> None:
        self._prefix = prefix
        self._use(catalogue(prefix).timed(now_ms))
        self._pages = MysqlPages(prefix)

    def at(self, now_ms: int) -> Dialect:
        pinned = copy(self)
        pinned._use(self._catalogue.timed(lambda: now_ms))
        return pinned

    def _use(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.ask = catalogue.ask
        self._make_ready = catalogue.maker(claim_queries.READY_OF_TYPE)
        self._tables = MysqlTables(self._prefix, catalogue.now_ms)

    def change(self, query: Change, *values: object) -> Plan[int]:
        yield from self.ask(query, *values)
        return (yield from first(_CHANGED)) or 0

    def holds_together(self) -> Plan[bool]:
        # where each statement commits, the savepoint is gone at once: the server refuses the second statement
        yield from self.ask(SAVEPOINT)
        yield from self.ask(RELEASE_SAVEPOINT)
        return True

    # schema

    newest_version = NEWEST_VERSION

    def version(self) -> Plan[Version]:
        return self._tables.version()

    def migrate(self) -> Plan[tuple[int, int]]:
        return self._tables.migrate()

    def preview_migration(self) -> Plan[MigrationPreview]:
        version = yield from self.version()
        version.require_fit(NEWEST_VERSION)
        rendered = partial(render, prefix=self._prefix)
        return (yield from preview(MIGRATIONS, CODE, version.found, rendered, LOCKING, _rows_about))

    # enqueue

    def insert(
        self, job: NewJob, payloads: Sequence[str], derived: Sequence[Derived] | None = None
    ) -> Plan[list[Inserted]]:
        if len(payloads) == 1 and job.is_plain and self._catalogue.now_ms() is None:
            fields = job.type, job.queue, payloads[0], job.priority, job.max_attempts
            rows = yield from self.ask(queries.INSERT_PLAIN, *fields)
            job_id, created_at_ms, _ = cast("tuple[int, int, int]", rows[0])
            return [Inserted(job_id, "pending", created_at_ms, created_at_ms, None)]
        none: Sequence[Derived | tuple[()]] = [()] * len(payloads)
        texts = [(text, *row) for text, row in zip(payloads, derived or none, strict=True)]
        rows = yield from self.ask(queries.INSERT, *fields_of(job, as_json(texts)), int(derived is not None))
        inserted = [Inserted(*row) for row in cast("list[tuple[int, str, int, int, int | None]]", rows)]
        return sorted(inserted, key=attrgetter("id"))

    # claim

    def ready_jobs(
        self, queue: str, types: Sequence[str], limit: int, starts: Starts = NOTHING_KNOWN
    ) -> Plan[list[Ready]]:
        shares = {types[0]: limit}
        if len(types) > 1:  # a limit for each type alone would lock far too many
            ahead = yield from self.ready_ahead(queue, types, limit)
            shares = Counter(key_of(job.type, job.unfit) for job in ahead)
        ready: list[Ready] = []
        for task, share in shares.items():
            start = starts.get((queue, task)) or START
            ready += yield from self.ask(claim_queries.READY_OF_TYPE, queue, share, task, *start)
        return sorted(ready, key=Ready.order)

    def ready_ahead(self, queue: str, types: Sequence[str], limit: int) -> Plan[list[Ready]]:
        values = (self._catalogue.now_ms(), queue, limit, *types)
        rows = yield plain(render(claims.ready_jobs(len(types)), self._prefix), *values)
        return sorted([self._make_ready(row) for row in rows], key=Ready.order)

    def claim(
        self, started: Sequence[Ready], buffered: Sequence[Ready], owner: Owner, lease_ms: int | None
    ) -> Plan[set[int] | None]:
        jobs = [*started, *buffered]
        rows = as_json([(job.queue, key_of(job.type, job.unfit), *job.order()) for job in jobs])
        few = min(started, buffered, key=len)
        how = owner.holder, owner.worker, [job.id for job in few], lease_ms, len(jobs), int(few is started)
        (claimed,) = yield from self.ask(claim_queries.CLAIM, rows, *how)
        return None if claimed is None else set(_ids.decode(cast("str", claimed)))

    # limits

    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        return (yield from self.ask(FREE_SLOTS, attempts))[0]

    def unhold(self, counts: Mapping[str, int]) -> Plan[int]:
        return self.change(UNHOLD, list(counts.items()))

    # settle

    def settle_successes(self, rows: Sequence[Success], owner: Owner) -> Plan[tuple[set[int], bool]]:
        ended = {job_id: row.of(job_id) for row in rows for job_id in row.ids}
        fences = [(row.id, row.lease, owner.holder) for row in ended.values()]
        taken = yield from self.ask(end_queries.TAKE, fences)
        ours = [ended[claim.job_id] for claim in taken]
        live = set((yield from self.ask(end_queries.LIVE, [(row.id, row.lease) for row in ours])))
        settled = [row for row in ours if row.id in live]
        if settled:
            yield from self.ask(end_queries.SETTLE_SUCCESSES, settled, owner.worker)
        if len(live) < len(ours):  # of claims whose jobs were changed from outside
            yield from self.ask(claim_queries.MAKE_READY, sorted({row.id for row in ours} - live))
        if not live:
            return live, False
        return live, (yield from self.ask(end_queries.ANY_FOLLOWED, min(live), max(live)))[0]

    # moves

    def shared(self, text: str, *parameters: Parameter) -> Plan[list[Row]]:
        sql = adapted(text)
        assert isinstance(sql, str)
        return (yield plain(render(sql, self._prefix), *parameters))

    def move_code(self) -> Plan[MoveCode]:
        yield from ()
        return moves.move_code(lambda statement: render(statement, self._prefix))

    def next_id(self, table: str) -> Plan[int]:
        ((number,),) = yield plain(render(moves.NEXT_ID.format(table), self._prefix))
        return cast("int", number)

    def set_next_id(self, table: str, number: int) -> Plan[None]:
        """Commits, as all changes of a table do."""
        yield plain(render(moves.SET_ID.format(table, number), self._prefix))

    # callers' connections

    def for_caller(self) -> Plan[Dialect]:
        yield from ()
        return MysqlDialect(self._prefix, self._catalogue.now_ms)

    def identity(self) -> Statement[Row]:
        return self._catalogue.statement(queries.IDENTITY)

    # inspect

    units_per_ms = 1

    def places(self, wanted: Filter, order: Order, span: Span, limit: int, *, by_payload: bool) -> Plan[list[Place]]:
        return self._pages.places(wanted, order, span, limit)

    def matching(self, wanted: Filter, ids: Sequence[int]) -> Plan[list[Job]]:
        return self._pages.matching(wanted, ids)

    def has_payload_index(self) -> Plan[bool]:
        yield from ()
        return False


def _rows_about(table: str) -> Plan[int]:
    rows = yield plain(
        "select table_rows from information_schema.tables where table_schema = database() and table_name = $1", table
    )
    return int(cast("int", rows[0][0])) if rows else 0
