"""Texts about workers. See `jobs` about clocks in conditions."""

from __future__ import annotations

from rowcall.store.queries.workers import OPENED_PREFIX

_OWNED_COLUMNS = (
    "job.id, job.lease, job.attempt, job.max_attempts, job.started_at is not null, job.queue::text, job.type::text"
)

register_worker = """
    insert into <worker> (name, host, pid, queues, concurrency, version, lease_ms, lock_path, started_at, heartbeat_at)
    select $2, $3, $4::int, $5, $6::int, $7, $8::bigint, $9, now, now from (select <now> as now) as moment"""
set_served = "update <worker> set served = $2::text::jsonb where name = $1::text"
serve_nothing = """
    update <worker> set queues = '', concurrency = 0, listening = false, heartbeats = heartbeats + 1,
      heartbeat_at = <now>
    where name = $2::text and not exists (
      select from <job> where status = <running> and lease_until is null and worker = $2::text)
      and not exists (select from <claim> where worker = $2::text)
    returning name"""
mark_listening = "update <worker> set listening = $2::int <> 0 where name = $1::text returning name"
# a transaction that has written jobs and not committed yet may not have seen that this worker listens
open_writers = """
    select distinct virtualtransaction from pg_locks
    where locktype = 'relation' and relation = to_regclass('<job>') and mode = 'RowExclusiveLock' and granted
      and database = (select oid from pg_database where datname = current_database())
      and pid <> pg_backend_pid()"""
survey = """
    with recursive owner (name) as (
      (select worker from <job> where status = <running> order by worker limit 1)
      union all
      select next.worker from owner cross join lateral (
        select worker from <job> where status = <running> and worker > owner.name order by worker limit 1) as next
    )
    select coalesce((select jsonb_agg(jsonb_build_array(name, host, heartbeats, lease_ms, lock_path) order by name)
                     from <worker>), '[]'::jsonb)::text,
      exists (select from <job> where status = <running> and lease_until is not null
              and lease_until <= (select <now>)),
      exists (select from owner where not exists (select from <worker> where name = owner.name)
              and exists (select from <job> where status = <running> and worker = owner.name
                          and lease_until is null))
      or exists (select from <job> where status = <running> and worker is null and lease_until is null)
      or exists (select from <claim> as claim where not exists (select from <worker> where name = claim.worker)),
      exists (select from <job> where status = <pending> and held is not null)"""
owned_by = f"""
    select {_OWNED_COLUMNS} from <job> as job
    where status = <running> and lease_until is null and worker = $1::text
    order by worker, id limit $2::int for update skip locked"""
running_of = f"""
    select {_OWNED_COLUMNS} from <job> as job
    where status = <running> and lease_until is null and worker = $1::text
    order by worker, id limit $2::int"""
orphans = f"""
    with recursive owner (name) as (
      (select worker from <job> where status = <running> order by worker limit 1)
      union all
      select next.worker from owner cross join lateral (
        select worker from <job> where status = <running> and worker > owner.name order by worker limit 1) as next
    ), gone as materialized (
      select name from owner where not exists (select from <worker> where name = owner.name)
    )
    select * from (
      select mine.* from gone cross join lateral (
        select {_OWNED_COLUMNS} from <job> as job
        where status = <running> and lease_until is null and worker = gone.name
        order by worker, id limit $1::int for update skip locked) as mine
      limit $1::int) as of_the_gone
    union all
    select * from (
      select {_OWNED_COLUMNS} from <job> as job
      where status = <running> and lease_until is null and worker is null
      order by worker, id limit $1::int for update skip locked) as without_worker"""
lease_expired = f"""
    select {_OWNED_COLUMNS}, coalesce(job.worker like '{OPENED_PREFIX}%', false) from <job> as job
    where status = <running> and lease_until is not null and lease_until <= (select <now>)
    order by lease_until limit $2::int for update skip locked"""
