"""Texts about workers. See `jobs` about clocks in conditions."""

from __future__ import annotations

from rowcall.store.queries.workers import OPENED_PREFIX

_OWNED = f"""
    select claim.job_id, claim.lease, claim.holder, claim.attempt, coalesce(job.max_attempts, 1),
           claim.started_at is not null, coalesce(job.queue, '')::text, coalesce(job.type, '')::text,
           claim.worker like '{OPENED_PREFIX}%'
    from (select * from <claim>"""
_WITH_JOB = """) as claim left join lateral (
      select max_attempts, queue::text, type::text from <job> where id = claim.job_id offset 0) as job on true"""
_LEASE_EXPIRED = "where lease_until is not null and lease_until <= (select <now>)"
_OF_GONE = "where lease_until is null and not exists (select from <worker> where name = claim.worker)"
_LOCKED = "for update skip locked"

WORKER_KEY = "hashtextextended(name, tableoid::bigint)"
"""The number of the advisory lock on a worker: rounds share it, and a recovery has it alone. The number of the
table is the same on every connection, its name is not: a caller's connection needs the schema, too."""

register_worker = """
    insert into <worker> (name, host, pid, queues, concurrency, version, lease_ms, lock_path, started_at, heartbeat_at)
    select $2, $3, $4::int, $5, $6::int, $7, $8::bigint, $9, now, now from (select <now> as now) as moment"""
# a heartbeat waits for the lock on the row, then finds it deleted
lock_worker = f"""
    select 1 from <worker> where name = $1::text and ($2::bigint is null or heartbeats = $2::bigint)
      and pg_try_advisory_xact_lock({WORKER_KEY})
    for update skip locked"""
set_served = "update <worker> set served = $2::text::jsonb where name = $1::text"
serve_nothing = """
    update <worker> set queues = '', concurrency = 0, listening = false, heartbeats = heartbeats + 1,
      heartbeat_at = <now>
    where name = $2::text and not exists (select from <claim> where worker = $2::text and lease_until is null)
    returning name"""
mark_listening = "update <worker> set listening = $2::int <> 0 where name = $1::text returning name"
# a transaction that has written jobs and not committed yet may not have seen that this worker listens
open_writers = """
    select distinct virtualtransaction from pg_locks
    where locktype = 'relation' and relation = to_regclass('<job>') and mode = 'RowExclusiveLock' and granted
      and database = (select oid from pg_database where datname = current_database())
      and pid <> pg_backend_pid()"""
survey = f"""
    select coalesce((select jsonb_agg(jsonb_build_array(name, queues, heartbeats, lease_ms, lock_path) order by name)
                     from <worker>), '[]'::jsonb)::text,
      exists (select from <claim> {_LEASE_EXPIRED}),
      exists (select from <claim> as claim {_OF_GONE})
      or exists (select from <job> as job where status = <running>
                 and not exists (select from <claim> where job_id = job.id offset 0)),
      exists (select from <job> where status = <pending> and held is not null)"""
owned_by = f"""
    {_OWNED} where lease_until is null and worker = $1::text order by job_id limit $2::int {_LOCKED} {_WITH_JOB}"""
owned_by_holder = f"{_OWNED} where holder = $1::bigint order by job_id {_WITH_JOB}"
orphans = f"{_OWNED} as claim {_OF_GONE} order by job_id limit $1::int {_LOCKED} {_WITH_JOB}"
lease_expired = f"{_OWNED} {_LEASE_EXPIRED} order by lease_until limit $2::int {_LOCKED} {_WITH_JOB}"
