"""Texts about workers."""

from __future__ import annotations

from rowcall.store.queries.workers import OPENED_PREFIX

_IS_STARTED = "case when started_at is null then json('false') else json('true') end"
_OWNED = f"""
    select json_group_array(json_array(id, lease, attempt, max_attempts, {_IS_STARTED}, queue, type))
    from (select id, lease, attempt, max_attempts, started_at, queue, type from"""
_OWNED_BY_WORKERS = "<job> indexed by <prefix>job_owned where status = <running> and lease_until is null"
_LEASE_EXPIRED = """<job> indexed by <prefix>job_leased
      where status = <running> and lease_until is not null and lease_until <= <now>"""
_WORKER_IS_GONE = "not exists (select 1 from <worker> where name = <job>.worker)"

register_worker = """
    insert into <worker> (name, host, pid, queues, concurrency, version, lease_ms, lock_path, started_at, heartbeat_at)
    values ($2, $3, $4, $5, $6, $7, $8, $9, <now>, <now>)"""
serve_nothing = f"""
    update <worker> set queues = '', concurrency = 0, heartbeats = heartbeats + 1, heartbeat_at = <now>
    where name = $2 and not exists (select 1 from {_OWNED_BY_WORKERS} and worker = $2)
      and not exists (select 1 from <claim> where worker = $2)
    returning name"""
survey = f"""
    select (select json_group_array(json_array(name, host, heartbeats, lease_ms, lock_path))
            from (select name, host, heartbeats, lease_ms, lock_path from <worker> order by name)),
      exists (select 1 from {_LEASE_EXPIRED}), exists (select 1 from {_OWNED_BY_WORKERS} and {_WORKER_IS_GONE})
        or exists (select 1 from <claim> where not exists (select 1 from <worker> where name = <claim>.worker)),
      exists (select 1 from <job> indexed by <prefix>job_held_by where status = <pending> and held is not null)"""
owned_by = f"{_OWNED} {_OWNED_BY_WORKERS} and worker = $1 limit $2)"
running_of = owned_by
orphans = f"{_OWNED} {_OWNED_BY_WORKERS} and {_WORKER_IS_GONE} limit $1)"
_IS_OPENED = f"case when worker like '{OPENED_PREFIX}%' then json('true') else json('false') end"
lease_expired = f"""
    select json_group_array(json_array(id, lease, attempt, max_attempts, {_IS_STARTED}, queue, type, {_IS_OPENED}))
    from (select id, lease, attempt, max_attempts, started_at, queue, type, worker
          from {_LEASE_EXPIRED} order by lease_until limit $2)"""
