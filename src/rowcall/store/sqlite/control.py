"""Texts about what people do to jobs and queues."""

from __future__ import annotations

from rowcall.store.queries.claims import Fence
from rowcall.store.queries.control import REASON
from rowcall.store.sqlite.words import LARGEST, given

interrupted = f"""
    select given.job_id, given.lease, claim.job_id is not null, {REASON.replace("job.id", "claim.job_id")}, null
    from {given(Fence._fields, "$2")} left join <claim> as claim
      on claim.job_id = given.job_id and claim.lease = given.lease and claim.holder = given.holder
      and exists (select 1 from <job> as job where job.id = claim.job_id and job.lease = claim.lease - 1
                  and +job.status not in <finished>)
    where claim.job_id is null or claim.cancel = 1
    union all select 0, 0, 1, null, name from <setting> where value = '' and name glob 'stack:*'
    union all
    select 0, 0, 1, null, 'limit:' || changed_at || ':' || name from <quota> where changed_at is not null
    union all
    select 0, 0, 1, null, 'limit:' || until || ':' || limit_key from <limit_hold> where until > <now>
    union all
    select 0, 0, 1, null, 'limit:' || open_until || ':' || limit_key from <breaker> where open_until > <now>"""
rerun = f"""
    update <job> as job set
      status = case when coalesce(given.run_at, <now>) > <now> then <to:reschedule> else <to:rerun> end,
      lease = <next:lease>, run_at = coalesce(given.run_at, <now>),
      max_attempts = min(max_attempts + given.more, {LARGEST}),
      claimed_at = null, started_at = null, finished_at = null, expires_at = null, deadline_at = null, lost = 0,
      held = null, unfit = null, result = null, error_code = null, error_detail = null,
      traceback = null, progress = case when status <> <succeeded> then progress end,
      progress_message = case when status <> <succeeded> then progress_message end
    from (select cast(key as integer) as id, json_extract(value, '$[0]') as more,
                 json_extract(value, '$[1]') as run_at from json_each($2)) as given
    where job.id = given.id"""
obstacles = """
    select job.id, 'key', other.id from json_each($1) as given cross join <job> as job on job.id = given.value
      cross join <job> as other indexed by <prefix>job_key
        on other.type = job.type and other.key = job.key and other.key is not null
    where other.id <> job.id and other.status in <unfinished>
    union all
    select job.id, 'chain', later.id from json_each($1) as given cross join <job> as job on job.id = given.value
      cross join <job> as later indexed by <prefix>job_chain
        on later.chain_id = job.chain_id and later.chain_id is not null
    where later.chain_index > job.chain_index and not (
      later.attempt = 0 and later.status in (<blocked>, <failed>, <cancelled>))"""
restart_ids = "delete from sqlite_sequence where name in ('<job>', '<event>', '<change>', '<batch>')"
