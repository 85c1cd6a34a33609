"""Texts about workers."""

from __future__ import annotations

from rowcall.store.queries.workers import OPENED_PREFIX

_OWNED = f"""
    select claim.job_id, claim.lease, claim.holder, claim.attempt, coalesce(job.max_attempts, 1),
           claim.started_at is not null, coalesce(job.queue, ''), coalesce(job.type, ''),
           claim.worker like '{OPENED_PREFIX}%'
    from (select * from <claim> as claim"""
_WITH_JOB = ") as claim left join <job> as job on job.id = claim.job_id"
_LEASE_EXPIRED = "where lease_until is not null and lease_until <= <now>"
_OF_GONE = "where lease_until is null and not exists (select 1 from <worker> where name = claim.worker)"
_LOCKED = "for update skip locked"

register_worker = """
    insert into <worker> (name, host, pid, queues, concurrency, version, lease_ms, lock_path, started_at, heartbeat_at)
    values ($2, $3, $4, $5, $6, $7, $8, $9, <now>, <now>)"""
# a heartbeat, and a round, wait for the lock on the row, then find it deleted
lock_worker = "select 1 from <worker> where name = $1 and ($2 is null or heartbeats = $2) for update skip locked"
_IDLE = "name = $2 and not exists (select 1 from <claim> where worker = $2 and lease_until is null)"
serve_nothing = (
    f"select name from <worker> where {_IDLE} for update",
    f"""
    update <worker> set queues = '', concurrency = 0, heartbeats = heartbeats + 1, heartbeat_at = <now>
    where {_IDLE}""",
)
heartbeat_of_worker = (
    "update <worker> set heartbeats = heartbeats + 1, heartbeat_at = <now> where name = $2",
    "select heartbeats from <worker> where name = $2",
)
survey = f"""
    select coalesce((select json_arrayagg(json_array(name, queues, heartbeats, lease_ms, lock_path))
                     from <worker>), '[]'),
      exists (select 1 from <claim> {_LEASE_EXPIRED}),
      exists (select 1 from <claim> as claim {_OF_GONE})
      or exists (select 1 from <job> as job where status = <running>
                 and not exists (select 1 from <claim> where job_id = job.id)),
      exists (select 1 from <job> where status = <pending> and held is not null)"""
owned_by = f"{_OWNED} where lease_until is null and worker = $1 order by job_id limit $2 {_LOCKED} {_WITH_JOB}"
owned_by_holder = f"{_OWNED} where holder = $1 order by job_id {_WITH_JOB}"
orphans = f"{_OWNED} {_OF_GONE} order by job_id limit $1 {_LOCKED} {_WITH_JOB}"
lease_expired = f"{_OWNED} {_LEASE_EXPIRED} order by lease_until limit $2 {_LOCKED} {_WITH_JOB}"
