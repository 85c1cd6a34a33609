"""Texts about what people do to jobs and queues."""

from __future__ import annotations

from rowcall.store.postgres.words import MOST_COUNT, time_of
from rowcall.store.queries.control import REASON


def _given(number: int) -> str:
    """Return a field of what was given for the row, as text."""
    return f"(select document from given) -> job.id::text ->> {number}"


_RERUN_AT = time_of(f"({_given(1)})")

interrupted = f"""
    select given.job_id, given.lease, (claim.job_id is not null)::int, {REASON.replace("job.id", "claim.job_id")}, null
    from (select (one ->> 0)::bigint as job_id, (one ->> 1)::bigint as lease, (one ->> 2)::bigint as holder
          from jsonb_array_elements($2::text::jsonb) as given (one)) as given
    left join lateral (
      select job_id, cancel from <claim> as claim where claim.job_id = given.job_id and claim.lease = given.lease
        and claim.holder = given.holder
        and (select job.lease = claim.lease - 1 and job.status not in <finished> from <job> as job
             where job.id = claim.job_id) offset 0) as claim on true
    where claim.job_id is null or claim.cancel <> 0
    union all select 0, 0, 1, null, name from <setting> where value = '' and name like 'stack:%'
    union all
    select 0, 0, 1, null, 'limit:' || <ms:changed_at> || ':' || name from <quota> where changed_at is not null
    union all
    select 0, 0, 1, null, 'limit:' || <ms:until> || ':' || limit_key from <limit_hold> where until > (select <now>)
    union all
    select 0, 0, 1, null, 'limit:' || <ms:open_until> || ':' || limit_key from <breaker>
    where open_until > (select <now>)"""
rerun = f"""
    with given as materialized (select $2::text::jsonb as document)
    update <job> as job set status = case when {_RERUN_AT} > moment.now then <to:reschedule> else <to:rerun> end,
      lease = <next:job.lease>, run_at = coalesce({_RERUN_AT}, moment.now),
      max_attempts = least(job.max_attempts + ({_given(0)})::int, {MOST_COUNT}),
      claimed_at = null, started_at = null, finished_at = null, expires_at = null, deadline_at = null, lost = 0,
      held = null, unfit = null, result = null, error_code = null, error_detail = null,
      traceback = null, progress = case when job.status <> <succeeded> then progress end,
      progress_message = case when job.status <> <succeeded> then progress_message end
    from (select <now> as now) as moment
    where job.id = any (array(select key::bigint from jsonb_object_keys((select document from given)) as key))"""
obstacles = """
    select job.id, 'key', other.id from <job> as job cross join lateral (
      select id from <job> as same
      where same.key is not null and same.type = job.type and same.key = job.key and same.id <> job.id
        and same.status in <unfinished> order by type desc, key desc, id desc limit 1) as other
    where job.id <in_ids:1>
    union all
    select job.id, 'chain', later.id from <job> as job cross join lateral (
      select id from <job> as step
      where step.chain_id is not null and step.chain_id = job.chain_id and step.chain_index > job.chain_index
        and not (step.attempt = 0 and step.status in (<blocked>, <failed>, <cancelled>))
      order by chain_id, chain_index limit 1) as later
    where job.id <in_ids:1>"""
restart_ids = """
    select setval(pg_get_serial_sequence(name, 'id'), 1, false)
    from unnest(array['<job>', '<event>', '<change>', '<batch>']) as name"""
