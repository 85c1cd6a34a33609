"""Attempts and timeline, read from the rows that say so. Names in angle brackets are filled in by `render`."""

from __future__ import annotations

# The job's row holds its latest attempt while claimed_at is set; the table holds those that something followed.
ATTEMPTS = """
create view <prefix>attempts as
select id as seq, job_id, attempt, status, claimed_at, started_at, finished_at, worker,
       error_code, error_detail, traceback, next_run_at
from <attempt>
union all
select 9000000000000000000, id, attempt,
       case when status = 'failed' and error_code = 'WORKER:LOST' then 'lost' else status end,
       claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback, null
from <job> where claimed_at is not null
"""

_SHOWN_TIME = "to_char({} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') || ' UTC'"

TIMELINE = f"""
create view <prefix>timeline as
select id as job_id, created_at as at, 0::bigint as seq, 0 as rank, 'ENQUEUED' as event, null as actor, null as detail
from <job>
union all
select job_id, claimed_at, seq, 1, 'CLAIMED', worker, 'attempt ' || attempt from <prefix>attempts
union all
select job_id, started_at, seq, 2, 'STARTED', worker, 'attempt ' || attempt
from <prefix>attempts where started_at is not null
union all
select id, heartbeat_at, 9000000000000000000, 3, 'HEARTBEAT', worker, null from <job> where heartbeat_at is not null
union all
select job_id, finished_at, seq, 4,
       case status when 'succeeded' then 'SUCCEEDED' when 'lost' then 'RECOVERED' when 'released' then 'RELEASED'
                   when 'snoozed' then 'SNOOZED' when 'cancelled' then 'CANCELLED' else 'FAILED' end,
       case when status = 'lost' then null else worker end,
       case when error_code is null then null
            else error_code || case when error_detail is null then '' else ': ' || error_detail end end
from <prefix>attempts where finished_at is not null and status <> 'running'
union all
select job_id, finished_at, seq, 5, 'RETRY_SCHEDULED', null, 'for ' || {_SHOWN_TIME.format("next_run_at")}
from <prefix>attempts where status = 'failed' and next_run_at is not null
union all
select id, finished_at, 9000000000000000000, 5, 'FAILED', null, error_code
from <job> where status = 'failed' and error_code = 'WORKER:LOST' and claimed_at is not null
union all
select id, finished_at, 9000000000000000000, 5, 'EXPIRED', null, error_detail
from <job> where status = 'cancelled' and error_code = 'EXPIRED:NOT_STARTED'
union all
select job_id, at, 8000000000000000000 + least(id, 1000000000000000000), 6, event, actor, detail from <event>
"""

_SNOOZED_UNTIL = (
    f"case when status = 'snoozed' then 'until ' || {_SHOWN_TIME.format('next_run_at')} when error_code is null"
)
TIMELINE_WITH_PROGRESS = f"""{TIMELINE.rstrip().replace("case when error_code is null", _SNOOZED_UNTIL)}
union all
select id, heartbeat_at, 9000000000000000000, 3, 'PROGRESS', worker,
       round(progress * 100) || ' %' || coalesce(': ' || progress_message, '')
from <job> where progress is not null and heartbeat_at is not null
"""

# a retry may have come later than what ended the wait: the last of the edges says when that was
TIMELINE_WITH_FLOWS = f"""{TIMELINE_WITH_PROGRESS.rstrip()}
union all
select id, created_at, 0, 1, 'BLOCKED', null,
       'by ' || (select count(*) from <edge> as edge where edge.job_id = job.id)
from <job> as job where exists (select from <edge> as edge where edge.job_id = job.id)
union all
select id, (select max(resolved_at) from <edge> as edge where edge.job_id = job.id), 0, 2, 'UNBLOCKED', null, null
from <job> as job where status <> 'blocked' and exists (select from <edge> as edge where edge.job_id = job.id)
  and not exists (select from <edge> as edge where edge.job_id = job.id and edge.state in ('open', 'failed'))
union all
select id, finished_at, 9000000000000000000, 5, case status when 'failed' then 'FAILED' else 'CANCELLED' end, null,
       error_code || coalesce(': ' || error_detail, '')
from <job> where finished_at is not null and claimed_at is null
  and error_code in ('BLOCKER:FAILED', 'BLOCKER:CANCELLED', 'CHAIN:COMPLETED', 'INVALID_INPUT:SCHEMA_MISMATCH')
union all
select id, greatest(run_at, created_at), 9000000000000000000, 7, 'HELD', null, 'by limit ' || substr(held, 7)
from <job> where status = 'pending' and held like 'limit:%'
union all
select id, (select max(finished_at) from <attempt> as attempt where attempt.job_id = job.id), 9000000000000000000, 7,
       'HELD', null, 'until a worker comes that the arguments fit, at the latest until '
       || {_SHOWN_TIME.format("held_until")}
from <job> as job where status = 'pending' and held = 'mismatch'
"""
