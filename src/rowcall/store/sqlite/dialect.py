"""What the plans say, in SQLite's words. Promises are those of `rowcall.store.dialect`.

SQLite has one writer at a time, and write transactions begin IMMEDIATE: what is read inside one stays true until its
commit. So a claim may be a read followed by a write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from operator import attrgetter

from rowcall.domain.job import Attempt, Event, Job, WorkerInfo
from rowcall.domain.limits import held_by
from rowcall.store import rows
from rowcall.store.catalogue import Catalogue, as_json
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
from rowcall.store.flows.queries import BEGIN_WRITING, DEFER, DEFER_NO_MORE, DEFERRING, READ_SOMETHING, Touched
from rowcall.store.jobs.queries import ANY_TAG
from rowcall.store.jobs.tags import retag
from rowcall.store.limits.queries import DELETE_SLOTS, SLOTS_OF, UNHOLD_FIRST, UNHOLD_SOME
from rowcall.store.new_job import fields_of
from rowcall.store.speech import only, plain
from rowcall.store.sqlite import control, counts, flows, jobs, limits, results
from rowcall.store.sqlite.pages import SqlitePages
from rowcall.store.sqlite.schema import MIGRATIONS, NEWEST_VERSION, VERSION_TABLE
from rowcall.store.sqlite.sql import Sql
from rowcall.store.sqlite.words import render
from rowcall.store.statement import Change, Parameter, Plan, Statement, execute, fetch, first, no_row

MOST_TYPES_MERGED = 256  # SQLite merges 500 at the most


@cache
def catalogue(prefix: str) -> Catalogue:
    return Catalogue("sqlite", (control, counts, flows, jobs, limits, results), partial(render, prefix=prefix))


class SqliteDialect:
    one_writer = True

    def __init__(self, prefix: str, *, lent: bool = False) -> None:
        self._prefix = prefix
        self._lent = lent
        self._catalogue = catalogue(prefix)
        self.ask = self._catalogue.ask
        self._sql = Sql(prefix)
        self._changes = self._sql.changes
        self._pages = SqlitePages(prefix)
        self._ready_jobs: dict[int, str] = {}

    def change(self, query: Change, *values: object) -> Plan[int]:
        yield from execute(self._catalogue.statement(query, *values))
        return (yield from only(Statement(self._changes, (), rows.number_from_row)))

    def holds_together(self) -> Plan[bool]:
        yield from self.ask(BEGIN_WRITING)  # with which sqlite3 begins a transaction, if it does so by itself
        # the only setting that SQLite resets at each commit
        (was_on,) = yield from self.ask(DEFERRING)
        yield from self.ask(DEFER)
        yield from self.ask(READ_SOMETHING)
        (is_on,) = yield from self.ask(DEFERRING)
        if is_on and not was_on:
            yield from self.ask(DEFER_NO_MORE)
        return bool(is_on)

    @property
    def newest_version(self) -> int:
        return NEWEST_VERSION

    def version(self) -> Plan[Version]:
        if not (yield from fetch(plain(self._sql.table_exists))):
            return Version(0, 0)
        found = yield from only(Statement(self._sql.current_version, (), rows.number_from_row))
        if found < NEWEST_VERSION:
            return Version(found, 0)
        if found == NEWEST_VERSION:
            missing = yield from fetch(Statement(self._sql.missing_tables, (), rows.text_from_row))
            return Version(found, 0, tuple(missing))
        oldest = yield from only(Statement(self._sql.oldest_code, (NEWEST_VERSION,), rows.number_from_row))
        return Version(found, oldest)

    def migrate(self, now_ms: int | None) -> Plan[tuple[int, int]]:
        yield from execute(plain(render(VERSION_TABLE, self._prefix)))
        version = yield from self.version()
        version.require_fit(NEWEST_VERSION)
        found = version.found
        for migration in MIGRATIONS:
            if migration.version > found:
                for statement in migration.statements:
                    yield from execute(plain(render(statement, self._prefix)))
                recorded = (migration.version, migration.name, migration.oldest)
                yield from execute(plain(self._sql.record_migration, now_ms, *recorded))
        return found, max(found, NEWEST_VERSION)

    def insert(self, job: NewJob, payload: str, now_ms: int | None, limits: str | None = None) -> Plan[Inserted]:
        if now_ms is None and job.is_plain:
            plain = (job.type, job.queue, payload, job.priority, job.max_attempts)
            found = yield Statement(self._sql.insert_plain, plain, no_row)
            job_id, created_at_ms = found[0]
            return Inserted(job_id, "pending", created_at_ms, created_at_ms, None)  # type: ignore[arg-type]
        parameters = (now_ms, *fields_of(job, payload), limits)
        found = yield Statement(self._sql.insert, parameters, rows.inserted_from_row)
        return rows.inserted_from_row(found[0])

    def insert_many(
        self, job: NewJob, payloads: Sequence[str], now_ms: int | None, limits: Sequence[str | None] | None = None
    ) -> Plan[list[Inserted]]:
        given = payloads if limits is None else list(zip(payloads, limits, strict=True))
        parameters = (now_ms, *fields_of(job, as_json(given)))
        if self._lent:  # the caller may have several threads at work on it, or each statement committed by itself
            sql = self._sql.insert_many_lent if limits is None else self._sql.insert_many_limited_lent
            made = yield from fetch(Statement(sql, parameters, rows.inserted_from_row))
            return sorted(made, key=attrgetter("id"))
        sql = self._sql.insert_many if limits is None else self._sql.insert_many_limited
        yield from execute(Statement(sql, parameters, no_row))
        last = (yield from fetch(Statement(self._sql.last_inserted, (), rows.inserted_from_row)))[0]
        # AUTOINCREMENT under the write lock: the ids of one INSERT are consecutive
        return [
            Inserted(job_id, last.status, last.run_at_ms, last.created_at_ms, last.expires_at_ms)
            for job_id in range(last.id - len(payloads) + 1, last.id + 1)
        ]

    def look(self, worker: str | None, now_ms: int | None, *, hold: bool = False) -> Plan[Look]:
        return (yield from fetch(Statement(self._sql.look, (now_ms, worker), rows.look_from_row)))[0]

    def glance(self, now_ms: int | None) -> Plan[Glance]:
        return only(Statement(self._sql.glance, (now_ms,), rows.glance_from_row))

    def stage(self, limit: int, now_ms: int | None) -> Plan[int]:
        if any((yield from self.ask(ANY_TAG))):
            yield from execute(plain(self._sql.retag_due, now_ms, limit))
        yield from execute(plain(self._sql.stage, now_ms, limit))
        return (yield from only(Statement(self._sql.changes, (), rows.number_from_row)))

    def expire(self, limit: int, now_ms: int | None) -> Plan[list[Touched]]:
        expired = yield from fetch(Statement(self._sql.expire, (now_ms, limit), rows.touched_from_row))
        yield from self._retag([job.id for job in expired])
        return expired

    def ready_jobs(self, queue: str, types: Sequence[str], limit: int, now_ms: int | None) -> Plan[list[Ready]]:
        if len(types) > MOST_TYPES_MERGED:
            found = yield from self.ready_jobs(queue, types[:MOST_TYPES_MERGED], limit, now_ms)
            found += yield from self.ready_jobs(queue, types[MOST_TYPES_MERGED:], limit, now_ms)
            return sorted(found, key=_by_priority)[:limit]
        merged = list(types)
        # one text per power of two keeps the statement cache small; a type that is given twice would be claimed twice
        arms = 1 << (len(merged) - 1).bit_length()
        sql = self._ready_jobs.get(arms) or self._ready_jobs.setdefault(arms, self._sql.ready_jobs(arms))
        padding: list[Parameter] = [None] * (arms - len(merged))
        statement = Statement(sql, (now_ms, queue, limit, *merged, *padding), rows.ready_from_row)
        return (yield from fetch(statement))[0]

    def free_slots(self, attempts: Sequence[tuple[int, int | None]]) -> Plan[list[str]]:
        # not as_json of a dict: one job may come with two leases
        leases = ",".join([f'"{job_id}":{lease}' for job_id, lease in set(attempts)]).replace("None", "null")
        given = "{" + leases + "}"
        (keys,) = yield from self.ask(SLOTS_OF, given)
        if keys:  # a second statement: RETURNING takes SQLite twice as long
            yield from self.ask(DELETE_SLOTS, given)
        return keys

    def unhold(self, slots: Mapping[str, int]) -> Plan[int]:
        changed = 0
        if ones := [held_by(key) for key, count in slots.items() if count == 1]:
            changed += yield from self.change(UNHOLD_FIRST, ones)
        for key, count in slots.items():
            if count > 1:
                changed += yield from self.change(UNHOLD_SOME, held_by(key), count)
        return changed

    def ready_ahead(self, queue: str, types: Sequence[str], limit: int, now_ms: int | None) -> Plan[list[Ready]]:
        return self.ready_jobs(queue, types, limit, now_ms)

    def mismatched(self, after_id: int, limit: int, now_ms: int | None) -> Plan[tuple[int, list[Mismatch]]]:
        return only(Statement(self._sql.mismatched, (now_ms, after_id, limit), rows.mismatched_from_row))

    def offered_jobs(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[Ready]]:
        return only(Statement(self._sql.offered_jobs, (now_ms, as_json(job_ids)), rows.ready_from_row))

    def unhold_jobs(self, job_ids: Sequence[int]) -> Plan[None]:
        return execute(plain(self._sql.unhold_jobs, as_json(job_ids)))

    def extend_mismatched(self, job_ids: Sequence[int], grace_ms: int, now_ms: int | None) -> Plan[None]:
        return execute(plain(self._sql.extend_mismatched, now_ms, as_json(job_ids), grace_ms))

    def fail_mismatched(self, job_ids: Sequence[int], now_ms: int | None) -> Plan[list[Touched]]:
        parameters = (now_ms, as_json(job_ids))
        failed = yield from fetch(Statement(self._sql.fail_mismatched, parameters, rows.touched_from_row))
        yield from self._retag([job.id for job in failed])
        return failed

    def mark_claimed(
        self,
        worker: str,
        started: Sequence[int],
        buffered: Sequence[int],
        lease_ms: int | None,
        now_ms: int | None,
    ) -> Plan[None]:
        for ids, are_started in ((started, 1), (buffered, 0)):
            if ids:
                parameters = (now_ms, worker, as_json(ids), lease_ms, are_started)
                yield from execute(plain(self._sql.mark_claimed, *parameters))
        yield from self._retag([*started, *buffered])

    def mark_started(self, marks: Sequence[tuple[int, int, int]], now_ms: int | None) -> Plan[None]:
        return execute(plain(self._sql.mark_started, now_ms, as_json(marks)))

    def mark_progress(self, marks: Sequence[tuple[int, int, float, str | None]], now_ms: int | None) -> Plan[None]:
        return execute(plain(self._sql.mark_progress, now_ms, as_json(marks)))

    def _retag(self, job_ids: Collection[int]) -> Plan[None]:
        return retag(self, job_ids)

    def settle_successes(self, settled: Sequence[Success], now_ms: int | None) -> Plan[set[int]]:
        live = yield from self._settle_successes(settled, now_ms)
        yield from self._retag(live)
        return live

    def _settle_successes(self, settled: Sequence[Success], now_ms: int | None) -> Plan[set[int]]:
        # nearly always all are still ours, which their number tells; who is not is asked only when it must be
        yield from execute(plain(self._sql.mark))
        changed = yield from self._write_successes(settled, now_ms)
        if changed == len(settled):
            return {row.id for row in settled}
        yield from execute(plain(self._sql.back_to_mark))
        live = yield from self._live(settled)
        yield from self._write_successes(settled, now_ms)
        return live

    def _write_successes(self, settled: Sequence[Success], now_ms: int | None) -> Plan[int]:
        """Write them, and give the number of rows that it changed."""
        changed = 0
        packed, others = _packed(settled)
        if packed:
            yield from execute(plain(self._sql.settle_packed, now_ms, as_json(packed)))
            changed += yield from only(Statement(self._sql.changes, (), rows.number_from_row))
        if others:
            yield from execute(plain(self._sql.settle_successes, now_ms, as_json(others)))
            changed += yield from only(Statement(self._sql.changes, (), rows.number_from_row))
        return changed

    def settle_others(self, settled: Sequence[Settlement], now_ms: int | None) -> Plan[set[int]]:
        live = yield from self._live(settled)
        given = as_json(settled)
        if any(row.attempt_recorded for row in settled):
            yield from execute(plain(self._sql.record_attempts, now_ms, given))
        yield from execute(plain(self._sql.settle_others, now_ms, given))
        yield from self._retag(live)
        return live

    def _live(self, settled: Sequence[Settlement | Success]) -> Plan[set[int]]:
        leases = [(row.id, row.lease) for row in settled]
        return (yield from fetch(Statement(self._sql.live, (as_json(leases),), rows.ids_from_row)))[0]

    def complete(
        self, job_id: int, lease: int, result: str | None, started_age_ms: int | None, now_ms: int | None
    ) -> Plan[bool]:
        parameters = (now_ms, job_id, lease, result, started_age_ms)
        if not (yield from fetch(plain(self._sql.complete, *parameters))):
            return False
        yield from retag(self, [job_id])
        return True

    def leases(self, job_ids: Sequence[int]) -> Plan[dict[int, tuple[int, str] | None]]:
        return dict((yield from fetch(Statement(self._sql.leases, (as_json(job_ids),), rows.lease_from_row))))

    def for_caller(self) -> Plan[Dialect]:
        yield from ()
        return SqliteDialect(self._prefix, lent=True)

    def identity(self) -> None:
        return None

    def heartbeat(self, job_id: int, lease: int, now_ms: int | None) -> Plan[bool]:
        return bool((yield from fetch(plain(self._sql.heartbeat, now_ms, job_id, lease))))

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
            )
        )

    def beat(self, worker: str, now_ms: int | None) -> Plan[bool]:
        return bool((yield from fetch(plain(self._sql.beat, now_ms, worker))))

    def survey(self, now_ms: int | None) -> Plan[Survey]:
        peers = yield from fetch(Statement(self._sql.peers, (), rows.peer_from_row))
        expired = yield from self.lease_expired(1, now_ms)
        orphans = yield from self.orphans(1)
        return Survey(peers, bool(expired), bool(orphans))

    def seize(self, worker: str, beat: int | None) -> Plan[bool]:
        return bool((yield from fetch(plain(self._sql.seize, worker, beat))))

    def retire(self, worker: str) -> Plan[None]:
        return execute(plain(self._sql.retire, worker))

    def retire_if_idle(self, worker: str) -> Plan[bool]:
        if (yield from self.owned_by(worker, 1)):
            return False
        yield from self.retire(worker)
        return True

    def owned_by(self, worker: str, limit: int) -> Plan[list[Owned]]:
        return only(Statement(self._sql.owned_by, (worker, limit), rows.owned_from_row))

    def running_of(self, worker: str, limit: int) -> Plan[list[Owned]]:
        return self.owned_by(worker, limit)

    def orphans(self, limit: int) -> Plan[list[Owned]]:
        return only(Statement(self._sql.orphans, (limit,), rows.owned_from_row))

    def lease_expired(self, limit: int, now_ms: int | None) -> Plan[list[Owned]]:
        return only(Statement(self._sql.lease_expired, (now_ms, limit), rows.owned_from_row))

    def get(self, job_id: int) -> Plan[Job | None]:
        return first(Statement(self._sql.get, (job_id,), rows.job_from_row))

    def lock(self, job_id: int) -> Plan[Job | None]:
        return self.get(job_id)

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


def _packed(settled: Sequence[Success]) -> tuple[list[int], list[Success]]:
    """Those that fit into 63 bits (31 for the id, 12 for the lease, 10 for each age), and the others."""
    packed, others = [], []
    for row in settled:
        started = row.started_age_ms
        bare = row.result is None and not row.begins_chain
        if bare and started is not None and started < 1024 and row.id < 2**31 and row.lease < 4096:
            packed.append(row.id << 32 | row.lease << 20 | started << 10 | min(row.finished_age_ms, started))
        else:
            others.append(row)
    return packed, others


def _by_priority(job: Ready) -> tuple[int, int, int]:
    return -job.priority, job.place, job.id
