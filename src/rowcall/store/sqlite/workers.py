"""Texts about workers."""

from __future__ import annotations

from rowcall.store.queries.workers import OPENED_PREFIX

_OWNED = f"""
    select json_group_array(json_array(claim.job_id, claim.lease, claim.holder, claim.attempt,
      coalesce(job.max_attempts, 1), case when claim.started_at is null then json('false') else json('true') end,
      coalesce(job.queue, ''), coalesce(job.type, ''),
      case when claim.worker like '{OPENED_PREFIX}%' then json('true') else json('false') end))
    from (select * from <claim>"""
_WITH_JOB = ") as claim left join <job> as job on job.id = claim.job_id"
_LEASE_EXPIRED = "indexed by <prefix>claim_leased where lease_until is not null and lease_until <= <now>"
_OF_GONE = "where lease_until is null and not exists (select 1 from <worker> where name = <claim>.worker)"

register_worker = """
    insert into <worker> (name, host, pid, queues, concurrency, version, lease_ms, lock_path, started_at, heartbeat_at)
    values ($2, $3, $4, $5, $6, $7, $8, $9, <now>, <now>)"""
lock_worker = "select 1 from <worker> where name = $1 and ($2 is null or heartbeats = $2)"
serve_nothing = """
    update <worker> set queues = '', concurrency = 0, heartbeats = heartbeats + 1, heartbeat_at = <now>
    where name = $2 and not exists (select 1 from <claim> where worker = $2 and lease_until is null)
    returning name"""
survey = f"""
    select (select json_group_array(json_array(name, queues, heartbeats, lease_ms, lock_path))
            from (select name, queues, heartbeats, lease_ms, lock_path from <worker> order by name)),
      exists (select 1 from <claim> {_LEASE_EXPIRED}), exists (select 1 from <claim> {_OF_GONE})
        or exists (select 1 from <job> indexed by <prefix>job_waiting where status = <running>
                   and not exists (select 1 from <claim> where job_id = <job>.id)),
      exists (select 1 from <job> indexed by <prefix>job_held_by where status = <pending> and held is not null)"""
owned_by = f"{_OWNED} where lease_until is null and worker = $1 limit $2 {_WITH_JOB}"
owned_by_holder = f"{_OWNED} where holder = $1 {_WITH_JOB}"
orphans = f"{_OWNED} {_OF_GONE} limit $1 {_WITH_JOB}"
lease_expired = f"{_OWNED} {_LEASE_EXPIRED} order by lease_until limit $2 {_WITH_JOB}"
