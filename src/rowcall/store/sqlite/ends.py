"""Texts about ends: of attempts, and of jobs that have no claim."""

from __future__ import annotations

from rowcall.domain.blobs import BLOB_KEY
from rowcall.domain.payload import RAW_KEY
from rowcall.store.queries.claims import Fence
from rowcall.store.queries.ends import OVERDUE, Settlement, Success, also_unfit, of_claim
from rowcall.store.schema import HAS_DEADLINE, NEXT_COLUMNS, NO_CLAIM
from rowcall.store.sqlite.schema import FOLLOWED
from rowcall.store.sqlite.words import LARGEST, given

FENCES = f"""{given(Fence._fields, "$1")} cross join <claim> as claim
    on claim.job_id = given.job_id and claim.lease = given.lease and claim.holder = given.holder"""
# columns that are not checked may have anything in them
take = f"""
    select json_group_array(json_array(claim.job_id, claim.lease, claim.worker,
      case when typeof(claim.claimed_at) = 'integer' then claim.claimed_at end,
      case when typeof(claim.started_at) = 'integer' then claim.started_at end,
      case when claim.progress between 0.0 and 1.0 then claim.progress end,
      case when typeof(claim.progress_message) = 'text' then claim.progress_message end,
      case when claim.cancel = 1 then 1 else 0 end))
    from {FENCES}"""
drop_claims = f"delete from <claim> where job_id in (select claim.job_id from {FENCES})"
_RUNS = f"""{given(("id", "lease", "count"), "$1")} cross join <claim> as claim
    on claim.job_id between given.id and given.id + given.count - 1 and claim.lease = given.lease
      and claim.holder = $2"""
take_runs = f"delete from <claim> where job_id in (select claim.job_id from {_RUNS})"
still_held = f"select json_group_array(claim.job_id) from {_RUNS}"
changes = "select changes()"
# the claim says one more than the job's row
live = """
    select json_group_array(job.id) from json_each($1) as given cross join <job> as job
    where job.id = json_extract(given.value, '$[0]') and job.lease = json_extract(given.value, '$[1]') - 1
      and +job.status not in <finished>"""

_HAS_STEPS = "exists (select 1 from <step> where job_id = <job>.id)"
_ENDED_LEASE = f"min(<job>.lease + 2, {LARGEST})"
_BEGAN = "max(given.claimed_at_ms, created_at)"
_KEPT = f"""
      progress = case when progress is not null and {_HAS_STEPS} then 1.0 end,
      progress_message = case when progress_message is not null and {_HAS_STEPS} then progress_message end"""
settle_successes = f"""
    update <job> set status = <to:succeed>, lease = {_ENDED_LEASE}, attempt = <next:attempt>, worker = $3,
      claimed_at = {_BEGAN}, started_at = max({_BEGAN}, <now> - coalesce(given.started_age_ms, given.finished_age_ms)),
      finished_at = max({_BEGAN}, <now> - given.finished_age_ms), {_KEPT}, result = given.result,
      error_code = null, error_detail = null, traceback = null
    from {given(Success, "$2")}
    where <job>.id between given.id and given.id + given.count - 1 and <job>.lease = given.lease - 1
      and +<job>.status not in <finished>"""

_CLAIMED_AT = "max(coalesce(given.claimed_at_ms, {0}created_at), {0}created_at)"
_STARTED_AT = f"max({_CLAIMED_AT}, coalesce(<now> - given.started_age_ms, given.started_at_ms))"
_FINISHED_AT = f"max({_CLAIMED_AT}, <now> - given.finished_age_ms)"
record_attempts = f"""
    insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                           error_detail, traceback, next_run_at, lease)
    select job.id, <next:job.attempt>, given.attempt_status, {_CLAIMED_AT.format("job.")},
           case when given.unfit is null then {_STARTED_AT.format("job.")} end,
           {_FINISHED_AT.format("job.")}, given.worker, given.error_code, given.error_detail, given.traceback,
           coalesce(given.run_at_ms, <now> + given.delay_ms), given.lease + 1
    from {given(Settlement, "$3")} cross join <job> as job
    where given.attempt_recorded and job.id = given.id"""
_UNFIT = also_unfit("<job>.unfit", "given.unfit")
_REPORTED = f"given.progress is not null and not (given.replays and {_HAS_STEPS})"
settle = f"""
    update <job> set status = given.status, lease = {_ENDED_LEASE},
      attempt = max(0, <next:<job>.attempt> - given.attempt_returned), lost = min(<job>.lost + given.lost, {LARGEST}),
      worker = given.worker, claimed_at = case when given.final then {_CLAIMED_AT.format("")} end,
      started_at = case when given.final then {_STARTED_AT.format("")} end,
      finished_at = case when given.final then {_FINISHED_AT.format("")} end,
      progress = case when {_REPORTED} then given.progress
                      when <job>.progress is not null and {_HAS_STEPS}
                      then case when given.status = <succeeded> then 1.0 else <job>.progress end end,
      progress_message = case when {_REPORTED} then given.progress_message
                              when <job>.progress_message is not null and {_HAS_STEPS}
                              then <job>.progress_message end,
      run_at = coalesce(given.run_at_ms, <now> + given.delay_ms, run_at),
      expires_at = case when given.attempt_returned and given.attempt_recorded and given.unfit is null
                        then null else expires_at end,
      unfit = {_UNFIT},
      result = given.result, error_code = given.error_code, error_detail = given.error_detail,
      traceback = given.traceback
    from {given(Settlement, "$3")}
    where <job>.id = given.id"""
complete = f"""
    update <job> set status = <to:succeed>, lease = {_ENDED_LEASE},
      attempt = <next:<job>.attempt>, worker = claim.worker, claimed_at = max(claim.claimed_at, created_at),
      started_at = max(claim.claimed_at, created_at, coalesce(<now> - $6, claim.started_at, 0)),
      finished_at = max(claim.claimed_at, created_at, <now>), result = $5, error_code = null, error_detail = null,
      traceback = null,
      progress = case when $7 or claim.progress is not null or <job>.progress is not null and {_HAS_STEPS}
                      then 1.0 end,
      progress_message = case when $7 then $8
                              when claim.progress is not null then claim.progress_message
                              when <job>.progress_message is not null and {_HAS_STEPS}
                              then <job>.progress_message end
    from <claim> as claim
    where <job>.id = $2 and claim.job_id = $2 and claim.lease = $3 and claim.holder = $4
      and <job>.lease = claim.lease - 1 and +<job>.status not in <finished>
    returning {FOLLOWED.format("<job>.")}"""
# it returns rows, as a statement on a caller's connection has to
drop_claim = "delete from <claim> where job_id = $1 and lease = $2 and holder = $3 returning job_id"
in_use = """
    select exists (select 1 from <edge> indexed by <prefix>edge_open where state = 'open'),
      exists (select 1 from <slot>), exists (select 1 from <waiter>), exists (select 1 from <job_tag>)"""

find_expired_ready = """
    select job.id, 'not started by ' || <shown:job.expires_at>
    from <ready> as ready indexed by <prefix>ready_expiry cross join <job> as job on job.id = ready.id
    where ready.expires_at is not null and ready.expires_at <= <now> and +job.status = <pending> and job.held is null
    order by ready.expires_at limit $2"""
find_overdue_ready = f"""
    select job.id, {OVERDUE} from <job> as job indexed by <prefix>job_deadline
    where {HAS_DEADLINE} and status = <pending> and held is null and deadline_at <= <now> and {NO_CLAIM}
    order by deadline_at limit $2"""
find_unknown = """
    select ready.id, job.error_detail, job.error_code from <ready> as ready cross join <job> as job on job.id = ready.id
    where ready.queue = $2 and ready.type = $3 and ready.since <= <now> - $4
      and not exists (select 1 from <attempt> where job_id = ready.id and finished_at > <now> - $4)
    order by ready.rank, ready.turn, ready.id limit $5"""
end_waiting = f"""
    update <job> set status = $3, lease = <next:lease>, held = null, finished_at = <now>,
      {of_claim("<job>")},
      result = case when $3 = <succeeded> then $7 else result end, error_code = $5,
      error_detail = json_extract($6, '$."' || id || '"'),
      traceback = case when $3 = <succeeded> then null else traceback end, on_end = coalesce(on_end, $8)
    where id <in_ids:2> and +status not in <finished> and ($4 is null or +status = $4)
    returning id, queue, type, attempt, {FOLLOWED.format("")}"""

any_followed = f"""
    select exists (
      select 1 from <job> indexed by <prefix>job_followed where ({FOLLOWED.format("")}) and id between $1 and $2)"""
# CASE, because only that skips what it does not need
_OUTCOME = f"""json_object('job', json_object(
      'id', id, 'type', type, 'queue', queue, 'event', status, 'attempt', attempt, 'max_attempts', max_attempts,
      'error_code', cast(error_code as text), 'error_detail', cast(error_detail as text),
      'result', case when typeof(result) = 'text' then case when json_valid(result) then json(result) end end,
      'arguments', case case when json_valid(payload) then json_type(payload) end
        when 'object' then json(payload) else json_object('{RAW_KEY}', payload) end))"""
_AT = "case when typeof(finished_at) = 'integer' then finished_at else <now> end"
follow_up = f"""
    insert or ignore into <job> {NEXT_COLUMNS}
    select json_extract(next, '$.type'), json_extract(next, '$.queue'), json_extract(next, '$.priority'),
           json_extract(next, '$.max_attempts'), <to:enqueue>, {_AT}, {_AT}, trace_context, tags, {_OUTCOME}
    from (select *, case when json_valid(on_end) then json_extract(on_end, '$.' || status) end as next
          from <job> where id <in_ids:2> and on_end is not null and +status in <finished> order by id)
    where json_valid(next)
    returning id"""
_BLOB = f"'$.job.' || part || '.{BLOB_KEY}'"
keep_blobs = f"""
    insert or ignore into <blob_ref> (job_id, digest)
    select id, substr(json_extract(payload, {_BLOB}), 8)
    from <job> cross join (select 'arguments' as part union all select 'result')
    where id <in_ids:1> and json_type(payload, {_BLOB}) = 'text'
    returning job_id"""
