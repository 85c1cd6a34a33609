"""What the plans say, in PostgreSQL's words. Promises are those of `rowcall.store.dialect`.

Many write at once, at READ COMMITTED. So whatever is read in order to be written is locked as it is read: claims,
staging and recovery skip what somebody else has locked, and settling goes by id and lease, in the order of the ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial

from rowcall.domain.job import FINISHED, Attempt, Event, Job, WorkerInfo
from rowcall.domain.limits import held_by
from rowcall.store import rows
from rowcall.store.catalogue import Catalogue, as_json
from rowcall.store.counts.queries import NOW
from rowcall.store.dialect import (
    Concerned,
    Dialect,
    Filter,
    Glance,
    Inserted,
    Look,
    Mismatch,
    NewJob,
    Owned,
    Ready,
    Registration,
    Settlement,
    Success,
    Survey,
    Version,
)
from rowcall.store.flows.queries import TRANSACTION_BEGAN, Touched
from rowcall.store.limits.queries import FREE_SLOTS, UNHOLD
from rowcall.store.new_job import fields_of
from rowcall.store.postgres import blobs, control, counts, flows, jobs, limits, results
from rowcall.store.postgres.pages import PostgresPages
from rowcall.store.postgres.rows import (
    array,
    inserted_many_from_row,
    owned_from_row,
    ready_from_row,
    somebody_listens,
    survey_from_row,
)
from rowcall.store.postgres.schema import MIGRATIONS, NEWEST_VERSION, VERSION_TABLE
from rowcall.store.postgres.sql import Sql
from rowcall.store.postgres.words import channel_of, channel_of_ends, render
from rowcall.store.results.queries import NOTIFY_WAITERS
from rowcall.store.speech import only, plain
from rowcall.store.statement import Change, Plan, Row, Statement, execute, fetch, first, no_row

_COUNT_CHANGES = "with changed as ({} returning 1) select count(*) from changed"


@cache
def catalogue(prefix: str) -> Catalogue:
    return Catalogue(
        "postgres",
        (blobs, control, counts, flows, jobs, limits, results),
        partial(render, prefix=prefix),
        array,
        _COUNT_CHANGES,
    )


class PostgresDialect:
    one_writer = False

    def __init__(self, prefix: str, *, lent: bool = False) -> None:
        self._prefix = prefix
        self._lent = lent
        self._catalogue = catalogue(prefix)
        self.ask = self._catalogue.ask
        self._sql = Sql(prefix)
        self._pages = PostgresPages(prefix)

    def change(self, query: Change, *values: object) -> Plan[int]:
        return (yield from self.ask(query, *values))[0]

    def holds_together(self) -> Plan[bool]:
        return (yield from self.ask(TRANSACTION_BEGAN)) == (yield from self.ask(TRANSACTION_BEGAN))

    @property
    def newest_version(self) -> int:
        return NEWEST_VERSION

    @property
    def channel(self) -> str:
        return channel_of(self._prefix)

    @property
    def channel_of_ends(self) -> str:
        return channel_of_ends(self._prefix)

    def version(self) -> Plan[Version]:
        yield from execute(plain(self._sql.wait_briefly))
        if not (yield from fetch(plain(self._sql.table_exists))):
            return Version(0, 0)
        version = yield from only(Statement(self._sql.current_version, (NEWEST_VERSION,), rows.version_from_row))
        return version if version.found == NEWEST_VERSION else version._replace(missing=())

    def migrate(self, now_ms: int | None) -> Plan[tuple[int, int]]:
        yield from execute(plain(self._sql.wait_briefly))
        yield from execute(plain(self._sql.lock_migrations))
        # where the tables are, even if another schema has come to stand before it
        (schema,) = yield from only(plain(self._sql.schema_to_migrate))
        if schema is not None:
            yield from execute(plain(self._sql.work_in_schema, str(schema)))
        yield from execute(plain(render(VERSION_TABLE, self._prefix)))
        version = yield from self.version()
        version.require_fit(NEWEST_VERSION)
        found = version.found
        for migration in MIGRATIONS:
            if migration.version > found:
                for statement in migration.statements:
                    yield from execute(plain(render(statement, self._prefix, str(schema))))
                recorded = (migration.version, migration.name, migration.oldest)
                yield from execute(plain(self._sql.record_migration, now_ms, *recorded))
        return found, max(found, NEWEST_VERSION)

    # enqueue

    def insert(self, job: NewJob, payload: str, now_ms: int | None, limits: str | None = None) -> Plan[Inserted]:
        if now_ms is None and job.is_plain:
            return self._insert_plain(job, payload)
        return self._insert(job, payload, now_ms, limits)

    def _insert_plain(self, job: NewJob, payload: str) -> Plan[Inserted]:
        parameters = (job.type, payload, job.queue, job.priority, job.max_attempts)
        if self._lent:  # there a trigger tells those who listen
            found = yield Statement(self._sql.insert_plain_lent, parameters, no_row)
        else:
            found = yield Statement(self._sql.insert_plain, parameters, no_row, somebody_listens)
        job_id, created_at_ms = map(int, found[0][:2])  # type: ignore[arg-type]  # a caller's codec may return text
        return Inserted(job_id, "pending", created_at_ms, created_at_ms, None)

    def _insert(self, job: NewJob, payload: str, now_ms: int | None, limits: str | None) -> Plan[Inserted]:
        parameters = (now_ms, *fields_of(job, payload), limits)
        found = yield Statement(self._sql.insert, parameters, no_row, somebody_listens)
        return rows.inserted_from_row(found[0][:5])

    def insert_many(
        self, job: NewJob, payloads: Sequence[str], now_ms: int | None, limits: Sequence[str | None] | None = None
    ) -> Plan[list[Inserted]]:
        sql, given = self._sql.insert_many, payloads
        if limits is not None:
            sql = self._sql.insert_many_limited
            given = [f"[{payload},{as_json(text)}]" for payload, text in zip(payloads, limits, strict=True)]
        parameters = (now_ms, *fields_of(job, f"[{','.join(given)}]"))
        return (yield from only(Statement(sql, parameters, inserted_many_from_row, somebody_listens)))

    # claim

    def look(self, worker: str | None, now_ms: int | None, *, hold: bool = False) -> Plan[Look]:
        sql = self._sql.look_and_hold if hold else self._sql.look
        return only(Statement(sql, (now_ms, worker), rows.look_from_row))

    def glance(self, now_ms: int | None) -> Plan[Glance]:
        return only(Statement(self._sql.glance, (now_ms,), rows.glance_from_row))

    def stage(self, limit: int, now_ms: int | None) -> Plan[int]:
        return only(Statement(self._sql.stage, (now_ms, limit), rows.number_from_row))

    def expire(self, limit: int, now_ms: int | None) -> Plan[list[Touched]]:
        return fetch(Statement(self._sql.expire, (now_ms, limit), rows.touched_from_row))

    def ready_jobs(self, queue: str, types: Sequence[str], limit: int, now_ms: int | None) -> Plan[list[Ready]]:
        if len(types) == 1:
            return fetch(Statement(self._sql.ready_of_type, (now_ms, queue, limit, types[0]), ready_from_row))
        return self._ready_of_types(queue, types, limit, now_ms)

    def _ready_of_types(self, queue: str, types: Sequence[str], limit: int, now_ms: int | None) -> Plan[list[Ready]]:
        parameters = (now_ms, queue, limit, as_json(types))
        found = yield from fetch(Statement(self._sql.ready_of_types, parameters, ready_from_row))
        if len(found) < limit:
            # somebody else may be at the first of them, and the shares were made with those
            rest = yield from fetch(Statement(self._sql.rest_of_types, parameters, ready_from_row))
            ours = {job.id for job in found}
            found += [job for job in sorted(rest, key=_by_priority) if job.id not in ours][: limit - len(found)]
        return sorted(found, key=_by_priority)

    def mismatched(self, after_id: int, limit: int, now_ms: int | None) -> Plan[tuple[int, list[Mismatch]]]:
        return only(Statement(self._sql.mismatched, (now_ms, after_id, limit), rows.mismatched_from_row))

    def offered_jobs(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[Ready]]:
        return fetch(Statement(self._sql.offered_jobs, (now_ms, array(job_ids)), ready_from_row))

    def ready_ahead(self, queue: str, types: Sequence[str], limit: int, now_ms: int | None) -> Plan[list[Ready]]:
        parameters = (now_ms, queue, limit, as_json(types))
        found = yield from fetch(Statement(self._sql.ready_ahead, parameters, ready_from_row))
        return sorted(found, key=_by_priority)[:limit]

    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        return (yield from self.ask(FREE_SLOTS, attempts))[0]

    def unhold(self, slots: Mapping[str, int]) -> Plan[int]:
        return self.change(UNHOLD, [(held_by(key), count) for key, count in slots.items()])

    def unhold_jobs(self, job_ids: Sequence[int]) -> Plan[None]:
        return execute(plain(self._sql.unhold_jobs, array(job_ids)))

    def extend_mismatched(self, job_ids: Sequence[int], grace_ms: int, now_ms: int | None) -> Plan[None]:
        return execute(plain(self._sql.extend_mismatched, now_ms, array(job_ids), grace_ms))

    def fail_mismatched(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[Touched]]:
        return fetch(Statement(self._sql.fail_mismatched, (now_ms, array(job_ids)), rows.touched_from_row))

    def mark_claimed(
        self,
        worker: str,
        started: Sequence[int],
        buffered: Sequence[int],
        lease_ms: int | None,
        now_ms: int | None,
    ) -> Plan[None]:
        return execute(plain(self._sql.mark_claimed, now_ms, worker, array(started), array(buffered), lease_ms))

    def mark_started(self, marks: Sequence[tuple[int, int, int]], now_ms: int | None) -> Plan[None]:
        return execute(plain(self._sql.mark_started, now_ms, *map(array, zip(*sorted(marks), strict=True))))

    def mark_progress(self, marks: Sequence[tuple[int, int, float, str | None]], now_ms: int | None) -> Plan[None]:
        document = as_json({str(mark[0]): mark for mark in marks})
        return execute(plain(self._sql.mark_progress, now_ms, array([mark[0] for mark in marks]), document))

    # settle

    def settle_successes(self, settled: Sequence[Success], now_ms: int | None) -> Plan[set[int]]:
        live: set[int] = set()
        plain = [row for row in settled if row.result is None and not row.begins_chain]
        if plain:
            arrays = (
                array([row.id for row in plain]),
                array([row.lease for row in plain]),
                array([-1 if row.started_age_ms is None else row.started_age_ms for row in plain]),
                array([row.finished_age_ms for row in plain]),
            )
            live.update((yield from fetch(Statement(self._sql.settle_plain, (now_ms, *arrays), rows.number_from_row))))
        if len(plain) < len(settled):
            given = _document([row for row in settled if row.result is not None or row.begins_chain])
            statement = Statement(self._sql.settle_with_results, (now_ms, *given), rows.number_from_row)
            live.update((yield from fetch(statement)))
        return live

    def settle_others(self, settled: Sequence[Settlement], now_ms: int | None) -> Plan[set[int]]:
        leases = array([row.id for row in settled]), array([row.lease for row in settled])
        live = set((yield from fetch(Statement(self._sql.live, leases, rows.number_from_row))))
        ours = [row for row in settled if row.id in live]
        if ours:
            if now_ms is None:  # one moment for what is said of the attempt and of the job
                (now_ms,) = yield from self.ask(NOW, None)
            given = _document(ours)
            if any(row.attempt_recorded for row in ours):
                yield from execute(plain(self._sql.record_attempts, now_ms, *given))
            to_be_told = _always if any(row.status not in FINISHED for row in ours) else None
            yield from execute(Statement(self._sql.settle_others, (now_ms, *given), no_row, to_be_told))
        return live

    def complete(
        self, job_id: int, lease: int, result: str | None, started_age_ms: int | None, now_ms: int | None
    ) -> Plan[bool]:
        given = (now_ms, job_id, lease, result, started_age_ms)
        completed = yield from fetch(Statement(self._sql.complete, given, rows.end_from_row))
        if any(somebody_waits for _, somebody_waits in completed):
            yield from self.ask(NOTIFY_WAITERS, [job_id])
        return bool(completed)

    def leases(self, job_ids: Sequence[int]) -> Plan[dict[int, tuple[int, str] | None]]:
        existing = yield from fetch(Statement(self._sql.existing, (array(job_ids),), rows.number_from_row))
        known = dict((yield from fetch(Statement(self._sql.leases, (array(job_ids),), rows.lease_from_row))))
        return {job_id: known.get(job_id) for job_id in existing}

    def heartbeat(self, job_id: int, lease: int, now_ms: int | None) -> Plan[bool]:
        return bool((yield from fetch(plain(self._sql.heartbeat, now_ms, job_id, lease))))

    # workers and recovery

    def concerned(self) -> Plan[Concerned]:
        return only(Statement(self._sql.concerned, (), rows.concerned_from_row))

    def register(self, worker: Registration, now_ms: int | None) -> Plan[None]:
        return execute(
            plain(
                self._sql.register,
                now_ms,
                worker.name,
                worker.host,
                worker.pid,
                worker.queues,
                worker.concurrency,
                worker.version,
                worker.lease_ms,
                worker.lock_path,
                worker.served,
            )
        )

    def beat(self, worker: str, now_ms: int | None) -> Plan[bool]:
        return bool((yield from fetch(plain(self._sql.beat, now_ms, worker))))

    def mark_listening(self, worker: str, listening: bool) -> Plan[None]:
        """Whether those who commit jobs are to tell."""
        return execute(plain(self._sql.mark_listening, worker, int(listening)))

    def open_writers(self) -> Plan[set[str]]:
        """The transactions that have written jobs and are not over."""
        return set((yield from fetch(Statement(self._sql.open_writers, (), rows.text_from_row))))

    def hint(self) -> Statement[Row]:
        """Tell those who listen, if anybody does."""
        return plain(self._sql.hint)

    def for_caller(self) -> Plan[Dialect]:
        schema = yield from only(Statement(self._sql.schema_of_tables, (), rows.text_from_row))
        return PostgresDialect(f"{schema}.{self._prefix}", lent=True)

    def identity(self) -> Statement[Row]:
        """It never fails: what it does not find is 0."""
        return plain(self._sql.identity)

    def survey(self, now_ms: int | None) -> Plan[Survey]:
        return only(Statement(self._sql.survey, (now_ms,), survey_from_row))

    def seize(self, worker: str, beat: int | None) -> Plan[bool]:
        return bool((yield from fetch(plain(self._sql.seize, worker, beat))))

    def retire(self, worker: str) -> Plan[None]:
        return execute(plain(self._sql.retire, worker))

    def retire_if_idle(self, worker: str) -> Plan[bool]:
        return bool((yield from fetch(plain(self._sql.retire_if_idle, worker))))

    def owned_by(self, worker: str, limit: int) -> Plan[list[Owned]]:
        return fetch(Statement(self._sql.owned_by, (worker, limit), owned_from_row))

    def running_of(self, worker: str, limit: int) -> Plan[list[Owned]]:
        return fetch(Statement(self._sql.running_of, (worker, limit), owned_from_row))

    def orphans(self, limit: int) -> Plan[list[Owned]]:
        return fetch(Statement(self._sql.orphans, (limit,), owned_from_row))

    def lease_expired(self, limit: int, now_ms: int | None) -> Plan[list[Owned]]:
        return fetch(Statement(self._sql.lease_expired, (now_ms, limit), owned_from_row))

    # look and steer

    def get(self, job_id: int) -> Plan[Job | None]:
        return first(Statement(self._sql.get, (job_id,), rows.job_from_row))

    def lock(self, job_id: int) -> Plan[Job | None]:
        return first(Statement(self._sql.lock, (job_id,), rows.job_from_row))

    def list_jobs(self, wanted: Filter) -> Plan[list[Job]]:
        return self._pages.page(wanted)

    def attempts(self, job_id: int) -> Plan[list[Attempt]]:
        return fetch(Statement(self._sql.attempts, (job_id,), rows.attempt_from_row))

    def timeline(self, job_id: int) -> Plan[list[Event]]:
        return fetch(Statement(self._sql.timeline, (job_id,), rows.event_from_row))

    def workers(self) -> Plan[list[WorkerInfo]]:
        return fetch(Statement(self._sql.workers, (), rows.worker_from_row))

    def delete(self, job_id: int) -> Plan[None]:
        return execute(plain(self._sql.delete, job_id))


def _always(found: list[Row]) -> bool:
    return True


def _by_priority(job: Ready) -> tuple[int, int, int]:
    return -job.priority, job.place, job.id


def _document(settled: Sequence[Success | Settlement]) -> tuple[str, str]:
    """The ids as an array, and what is given of each under its id."""
    return array([row.id for row in settled]), as_json({str(row.id): row for row in settled})
