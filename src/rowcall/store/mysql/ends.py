"""Texts about ends: of attempts, and of jobs that have no claim."""

from __future__ import annotations

from rowcall.domain.blobs import BLOB_KEY
from rowcall.domain.payload import RAW_KEY
from rowcall.store.mysql.claims import OF_READY
from rowcall.store.mysql.words import COLLATION, MOST_COUNT, MOST_LEASE, OF_JSON, TEXT, given, inserted, time_of
from rowcall.store.queries.ends import OVERDUE, Settlement, Success, also_unfit, of_claim
from rowcall.store.schema import HAS_DEADLINE, NEXT_COLUMNS, NO_CLAIM

_FENCE = given("job_id bigint, lease bigint, holder bigint", 1)
FENCES = f"""{_FENCE} straight_join <claim> as claim
      on claim.job_id = given.job_id and claim.lease = given.lease and claim.holder = given.holder"""
take = (
    f"""
    select claim.job_id, claim.lease, claim.worker, <ms:claim.claimed_at>, <ms:claim.started_at>, claim.progress,
      claim.progress_message, claim.cancel
    from {FENCES} order by claim.job_id for update""",
    f"delete claim from {FENCES}",
)
lock_void = f"""
    select claim.job_id from {FENCES}
    where claim.job_id not in (select job_id from <claim> where job_id = claim.job_id for update skip locked)
      or exists (select 1 from <job> where id = claim.job_id)
        and claim.job_id not in (select id from <job> where id = claim.job_id for update skip locked)"""
# locked until the commit: the attempt and the end of its job are written about the same rows
live = f"""
    select job.id from {given("id bigint, lease bigint", 1)} straight_join <job> as job on job.id = given.id
    where job.lease + 1 = given.lease and job.status not in <finished> for update"""

_HAS_STEPS = "exists (select 1 from <step> as step where step.job_id = job.id)"
FOLLOWED = (
    "(json_extract(job.on_end, concat('$.', job.status)) is not null or job.batch_id is not null"
    " or job.parent_id is not null)"
)
_NEXT_ATTEMPT = f"least(job.attempt, {MOST_COUNT - 1}) + 1"
ENDED_LEASE = f"least(job.lease, {MOST_LEASE - 2}) + 2"


def _ago(age_ms: str) -> str:
    return f"<now> - <span:{age_ms}>"


# In an update of one table an assignment sees the earlier ones, and in one of a join it does not. So what is read is
# written last, and never read after that.
_KEPT = f"""
      job.progress_message = case when job.progress is not null and {_HAS_STEPS} then job.progress_message end,
      job.progress = case when job.progress is not null and {_HAS_STEPS} then 1.0 end"""
_TAKEN_AT = f"greatest({time_of('given.claimed_at_ms')}, job.created_at)"
settle_successes = f"""
    update {given(Success, 2)} straight_join <job> as job on job.id = given.id
    set job.lease = {ENDED_LEASE}, job.attempt = {_NEXT_ATTEMPT}, job.worker = $3, job.claimed_at = {_TAKEN_AT},
      job.started_at = greatest({_TAKEN_AT}, {_ago("coalesce(given.started_age_ms, given.finished_age_ms)")}),
      job.finished_at = greatest({_TAKEN_AT}, {_ago("given.finished_age_ms")}), {_KEPT}, job.result = given.result,
      job.error_code = null, job.error_detail = null, job.traceback = null, job.status = <to:succeed>"""

_SETTLEMENT = given(Settlement, 3, "$.*")
_BEGAN = f"greatest(coalesce({time_of('given.claimed_at_ms')}, job.created_at), job.created_at)"
_STARTED_AT = f"greatest({_BEGAN}, coalesce({_ago('given.started_age_ms')}, {time_of('given.started_at_ms')}))"
_FINISHED_AT = f"greatest({_BEGAN}, {_ago('given.finished_age_ms')})"
_NEXT_RUN_AT = f"coalesce({time_of('given.run_at_ms')}, <now> + <span:given.delay_ms>)"
record_attempts = f"""
    insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                           error_detail, traceback, next_run_at, lease)
    select job.id, {_NEXT_ATTEMPT}, given.attempt_status, {_BEGAN},
           case when given.unfit is null then {_STARTED_AT} end,
           {_FINISHED_AT}, given.worker, given.error_code, given.error_detail, given.traceback, {_NEXT_RUN_AT},
           {ENDED_LEASE}
    from {_SETTLEMENT} straight_join <job> as job on job.id = given.id
    where given.attempt_recorded = 1 and job.id in $2 order by job.id"""
_REPORTED = f"given.progress is not null and not (given.replays <> 0 and {_HAS_STEPS})"
settle = (
    f"""
    update {_SETTLEMENT} straight_join <job> as job on job.id = given.id
    set job.lease = {ENDED_LEASE}, job.attempt = greatest(0, {_NEXT_ATTEMPT} - given.attempt_returned),
      job.lost = least(job.lost + given.lost, {MOST_COUNT}), job.worker = given.worker,
      job.claimed_at = case when given.final = 1 then {_BEGAN} end,
      job.started_at = case when given.final = 1 then {_STARTED_AT} end,
      job.finished_at = case when given.final = 1 then {_FINISHED_AT} end,
      job.progress_message = case when {_REPORTED} then given.progress_message
                                  when job.progress_message is not null and {_HAS_STEPS} then job.progress_message end,
      job.progress = case when {_REPORTED} then given.progress when job.progress is not null and {_HAS_STEPS}
                          then case when given.status = <succeeded> then 1.0 else job.progress end end,
      job.run_at = coalesce({_NEXT_RUN_AT}, job.run_at),
      job.expires_at = case when given.attempt_returned = 1 and given.attempt_recorded = 1 and given.unfit is null
                            then null else job.expires_at end,
      job.unfit = {also_unfit("job.unfit", "given.unfit")}, job.result = given.result,
      job.error_code = given.error_code, job.error_detail = given.error_detail, job.traceback = given.traceback,
      job.status = given.status
    where job.id in $2""",
    f"select {FOLLOWED} from <job> as job where job.id in $2",
)
_OF_MINE = "claim.job_id = $2 and claim.lease = $3 and claim.holder = $4"
_REPORTS = f"($7 = 1 or claim.progress is not null or job.progress is not null and {_HAS_STEPS})"
complete = (
    f"do (select 1 from <claim> as claim where {_OF_MINE} for update)",
    f"""
    select {FOLLOWED.replace("job.status", "<succeeded>")}
    from <claim> as claim straight_join <job> as job on job.id = $2
    where {_OF_MINE} and job.lease + 1 = $3 and job.status not in <finished> for update""",
    f"""
    update <claim> as claim straight_join <job> as job on job.id = claim.job_id
    set job.lease = {ENDED_LEASE}, job.attempt = {_NEXT_ATTEMPT}, job.worker = claim.worker,
      job.claimed_at = greatest(claim.claimed_at, job.created_at),
      job.started_at = greatest(claim.claimed_at, job.created_at,
                                coalesce(<now> - <interval:6>, claim.started_at, job.created_at)),
      job.finished_at = greatest(claim.claimed_at, job.created_at, <now>), job.result = $5, job.error_code = null,
      job.error_detail = null, job.traceback = null,
      job.progress_message = case when $7 = 1 then $8 when claim.progress is not null then claim.progress_message
                                  when job.progress_message is not null and {_HAS_STEPS} then job.progress_message end,
      job.progress = case when {_REPORTS} then 1.0 end, job.status = <to:succeed>
    where {_OF_MINE} and job.lease + 1 = $3 and job.status not in <finished>""",
    f"""
    delete claim from <claim> as claim left join <job> as job on job.id = claim.job_id
    where {_OF_MINE} and (job.id is null or job.lease = claim.lease + 1)""",
)
in_use = """
    select exists (select 1 from <edge> where state = 'open'), exists (select 1 from <slot>),
      exists (select 1 from <waiter>)"""

_FREE_JOBS = """straight_join <job> as job on job.id = first.id
    where job.status = <pending> and job.held is null for update skip locked"""
find_expired_ready = f"""
    select job.id, 'not started by ' || <shown:job.expires_at> from (
      select id from <ready> where expires_at is not null and expires_at <= <now>
      order by expires_at limit $2 for update skip locked) as first {_FREE_JOBS}"""
# the ready row is locked, so that no worker claims the job now
find_overdue_ready = f"""
    select job.id, {OVERDUE} from <job> as job straight_join <ready> as ready on {OF_READY}
    where {HAS_DEADLINE} and job.status = <pending> and job.held is null and job.deadline_at <= <now> and {NO_CLAIM}
    order by job.deadline_at limit $2 for update skip locked"""
find_unknown = f"""
    select job.id, job.error_detail, job.error_code from (
      select id from <ready> as ready where queue = $2 and type = $3 and since <= <now> - <interval:4>
        and not exists (select 1 from <attempt> as attempt
                        where attempt.job_id = ready.id and attempt.finished_at > <now> - <interval:4>)
      order by `rank`, turn, id limit $5 for update skip locked) as first {_FREE_JOBS}"""
_ENDING = "job.id in $2 and job.status not in <finished> and ($4 is null or job.status = $4)"
end_waiting = (
    f"""
    select job.id, job.queue, job.type,
      coalesce((select claim.attempt from <claim> as claim where claim.job_id = job.id), job.attempt),
      json_extract(coalesce(job.on_end, $8), concat('$.', $3)) is not null or job.batch_id is not null
        or job.parent_id is not null
    from <job> as job where {_ENDING} order by job.id for update""",
    f"""
    update <job> as job set lease = <next:job.lease>, held = null, {of_claim("job")}, finished_at = <now>,
      result = case when $3 = <succeeded> then $7 else job.result end, error_code = $5,
      error_detail = json_unquote(json_extract($6, concat('$."', job.id, '"'))),
      traceback = case when $3 = <succeeded> then null else job.traceback end,
      on_end = coalesce(job.on_end, $8), status = $3
    where {_ENDING}""",
)
any_followed = """
    select exists (select 1 from <job> where id between $1 and $2
                   and (on_end is not null or batch_id is not null or parent_id is not null))"""
_AT = "coalesce(job.finished_at, <now>)"
_QUOTED = f"json_quote(job.{{}}) collate {COLLATION}"
_ABOUT = {
    **{name: _QUOTED.format(column) for name, column in (("type", "type"), ("queue", "queue"), ("event", "status"))},
    **{name: f"job.{name}" for name in ("attempt", "max_attempts")},
    **{name: f"coalesce({_QUOTED.format(name)}, 'null')" for name in ("error_code", "error_detail")},
    "result": "coalesce(job.result, 'null')",
    "arguments": f"case when json_type(job.payload) {OF_JSON} = 'OBJECT' then job.payload"
    f" else concat('{{\"{RAW_KEY}\":', {_QUOTED.format('payload')}, '}}') end",
}
_PAYLOAD = ", ".join(f"""',"{name}":', {value}""" for name, value in _ABOUT.items())
# texts of JSON are joined: as JSON values, they lose the order of keys, and large numbers
follow_up = inserted(f"""
    insert into <job> {NEXT_COLUMNS}
    select next.type, next.queue, coalesce(next.priority, 0), greatest(1, coalesce(next.max_attempts, 1)),
           <to:enqueue>, {_AT}, {_AT}, job.trace_context, job.tags,
           concat('{{"job":{{"id":', job.id, {_PAYLOAD}, '}}}}')
    from <job> as job force index (primary)
    join json_table(json_extract(job.on_end, concat('$.', job.status)), '$' columns (
      type {TEXT} path '$.type', queue {TEXT} path '$.queue', priority bigint path '$.priority',
      max_attempts bigint path '$.max_attempts')) as next
    where job.id in $2 and job.status in <finished>
      and char_length(next.type) between 1 and 200 and char_length(next.queue) between 1 and 200
    order by job.id
    returning id""")
_BLOB = f"concat('$.job.', part.name, '.{BLOB_KEY}')"
keep_blobs = f"""
    insert into <blob_ref> (job_id, digest)
    select job.id, substr(json_unquote(json_extract(job.payload, {_BLOB})), 8)
    from <job> as job join (select 'arguments' as name union all select 'result') as part
    where job.id in $1 and json_type(json_extract(job.payload, {_BLOB})) {OF_JSON} = 'STRING'
    on duplicate key update digest = values(digest)"""
add_on_end = (
    "select id from <job> where id in $1 and on_end is null order by id for update",
    "update <job> set on_end = $2 where id in $1 and on_end is null",
)
