"""Texts about ends: of attempts, and of jobs that have no claim.

Groups are never joined with the table: on a table that was analyzed while it was nearly empty, the planner turns such
a join round, and the plan stays in the cache when a million rows have come. By `id = any(…)` it has one way only, and
what belongs to a row is found by its position among the sorted ids, or under its id in a document.
"""

from __future__ import annotations

from rowcall.domain.blobs import BLOB_KEY
from rowcall.domain.payload import RAW_KEY
from rowcall.store.postgres.words import ENDED_LEASE, MOST_COUNT, field_of, fields, time_of
from rowcall.store.queries.claims import OF_JOB
from rowcall.store.queries.ends import OVERDUE, Settlement, also_unfit, of_claim
from rowcall.store.schema import HAS_DEADLINE, NEXT_COLUMNS, NO_CLAIM

# A delete from the table of claims comes first: it is the fence, and the order of locks.
FENCES = """(
      select (one ->> 0)::bigint as job_id, (one ->> 1)::bigint as lease, (one ->> 2)::bigint as holder
      from jsonb_array_elements($1::text::jsonb) as fence (one)) as given"""
take = f"""
    with mine as materialized (
      select locked.job_id from {FENCES} cross join lateral (
        select job_id from <claim> as claim where claim.job_id = given.job_id and claim.lease = given.lease
          and claim.holder = given.holder for update) as locked)
    delete from <claim> as claim where job_id = any (array(select job_id from mine))
    returning job_id, lease, worker, <ms_or_null:claimed_at>, <ms_or_null:started_at>, progress, progress_message,
      cancel::int"""
lock_void = f"""
    with current as materialized (
      select mine.job_id from {FENCES} cross join lateral (
        select job_id from <claim> as claim where claim.job_id = given.job_id and claim.lease = given.lease
          and claim.holder = given.holder) as mine
    ), free as materialized (
      select job_id from <claim> where job_id = any (array(select job_id from current)) for update skip locked
    ), unlocked as materialized (
      select id from <job> where id = any (array(select job_id from free)) for update skip locked)
    select job_id from current where job_id not in (select job_id from free)
      or job_id not in (select id from unlocked) and exists (select from <job> where id = job_id)"""


def _given(parameter: str, row: str = "job.id", ids: str = "$2") -> str:
    """Return the value at the row's position of an array that goes with the sorted ids."""
    return f"((select {parameter}::text::bigint[]))[width_bucket({row}, (select {ids}::text::bigint[]))]"


# It locks the claims in the order of their ids, as all others do, because it reads them by an index scan: our
# connections allow neither a bitmap scan nor a scan of the table. Tests check the plan.
take_all = f"""
    with taken as (
      delete from <claim> where job_id = any ($1::text::bigint[]) and holder = $3::bigint
        and lease = {_given("$2", "job_id", "$1")} returning job_id)
    select case when count(*) < cardinality($1::text::bigint[]) then coalesce(array_agg(job_id), '{{}}') end
    from taken"""
# locked until the commit: the attempt and the end of its job are written about the same rows
live = """
    select mine.id from jsonb_array_elements($1::text::jsonb) as given (pair) cross join lateral (
      select id from <job> as job
      where job.id = (given.pair ->> 0)::bigint and job.lease + 1 = (given.pair ->> 1)::bigint
        and job.status not in <finished> for no key update) as mine"""

_ended = fields(Settlement)
_HAS_STEPS = "exists (select from <step> as step where step.job_id = job.id offset 0)"
FOLLOWED = "(job.on_end -> job.status::text is not null or job.batch_id is not null or job.parent_id is not null)"
_NEXT_ATTEMPT = f"least(job.attempt, {MOST_COUNT - 1}) + 1"


def _ago(age_ms: str) -> str:
    return f"moment.now - {age_ms} * interval '1 millisecond'"


_CLAIMED_AT = f"greatest({time_of(_given('$4'))}, job.created_at)"
_RESULT = "(select $7::text::jsonb) -> width_bucket(job.id, (select $2::text::bigint[])) - 1"
# the ids only if some are missing: to read a row for each would take the client as long as all the rest
settle_all = f"""
    with settled as (
    update <job> as job set status = <to:succeed>, lease = {ENDED_LEASE}, attempt = {_NEXT_ATTEMPT},
      worker = $8::text, claimed_at = {_CLAIMED_AT}, started_at = greatest({_CLAIMED_AT}, {_ago(_given("$5"))}),
      finished_at = greatest({_CLAIMED_AT}, {_ago(_given("$6"))}),
      progress = case when job.progress is not null and {_HAS_STEPS} then 1.0 end,
      progress_message = case when job.progress_message is not null and {_HAS_STEPS} then job.progress_message end,
      error_code = null, error_detail = null, traceback = null,
      result = case when $7::text is not null then nullif({_RESULT}, 'null') end
    from (select <now> as now) as moment
    where job.id = any ($2::text::bigint[]) and job.lease + 1 = {_given("$3")} and job.status || '' not in <finished>
    returning job.id, {FOLLOWED} as followed)
    select case when count(*) < cardinality($2::text::bigint[]) then coalesce(array_agg(id), '{{}}') end,
      coalesce(bool_or(followed), false) from settled"""

_BEGAN = f"greatest({time_of(f'({_ended.claimed_at_ms})')}, job.created_at)"  # of null and a time: the time
_STARTED_AT = f"coalesce({_ago(_ended.started_age_ms)}, {time_of(f'({_ended.started_at_ms})')})"
_STARTED_OR_NULL = f"case when {_STARTED_AT} is not null then greatest({_BEGAN}, {_STARTED_AT}) end"
_FINISHED_AT = f"greatest({_BEGAN}, {_ago(_ended.finished_age_ms)})"
_NEXT_RUN_AT = f"""coalesce(
        {time_of(_ended.run_at_ms)}, moment.now + {_ended.delay_ms} * interval '1 millisecond')"""
record_attempts = f"""
    with given as materialized (select $3::text::jsonb as document)
    insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                           error_detail, traceback, next_run_at, lease)
    select job.id, {_NEXT_ATTEMPT}, {_ended.attempt_status}, {_BEGAN},
           case when {_ended.unfit} is null then {_STARTED_OR_NULL} end, {_FINISHED_AT}, {_ended.worker},
           {_ended.error_code}, {_ended.error_detail}, {_ended.traceback}, {_NEXT_RUN_AT}, {ENDED_LEASE}
    from (select <now> as now) as moment, <job> as job
    where job.id = any ($2::text::bigint[]) and {_ended.attempt_recorded} = 1"""
_PROGRESS = f"({field_of('job.id', Settlement.__struct_fields__.index('progress'))})::float8"
_REPORTED = f"{_PROGRESS} is not null and not ({_ended.replays} <> 0 and {_HAS_STEPS})"
settle = f"""
    with given as materialized (select $3::text::jsonb as document)
    update <job> as job set status = {_ended.status}, lease = {ENDED_LEASE},
      attempt = greatest(0, {_NEXT_ATTEMPT} - {_ended.attempt_returned}),
      lost = least(job.lost + {_ended.lost}, {MOST_COUNT}), worker = {_ended.worker},
      claimed_at = case when {_ended.final} = 1 then {_BEGAN} end,
      started_at = case when {_ended.final} = 1 then {_STARTED_OR_NULL} end,
      finished_at = case when {_ended.final} = 1 then {_FINISHED_AT} end,
      progress = case when {_REPORTED} then {_PROGRESS} when job.progress is not null and {_HAS_STEPS}
                      then case when {_ended.status} = <succeeded> then 1.0 else job.progress end end,
      progress_message = case when {_REPORTED} then {_ended.progress_message}
                              when job.progress_message is not null and {_HAS_STEPS} then job.progress_message end,
      run_at = coalesce({_NEXT_RUN_AT}, job.run_at),
      expires_at = case when {_ended.attempt_returned} = 1 and {_ended.attempt_recorded} = 1
                        and {_ended.unfit} is null then null else job.expires_at end,
      unfit = {also_unfit("job.unfit", _ended.unfit)},
      result = {_ended.result}::jsonb, error_code = {_ended.error_code}, error_detail = {_ended.error_detail},
      traceback = {_ended.traceback}
    from (select <now> as now) as moment
    where job.id = any ($2::text::bigint[])
    returning {FOLLOWED}"""
complete = f"""
    with mine as materialized (
      select job_id from <claim> where job_id = $2::bigint and lease = $3::bigint and holder = $4::bigint for update
    ), seen as materialized (
      select lease + 1 = $3::bigint and status || '' not in <finished> as is_live
      from <job> where id = (select job_id from mine) for no key update
    ), taken as (  -- also where the job is gone: the transaction that deleted it has skipped this claim
      delete from <claim> where job_id = (select job_id from mine) and coalesce((select is_live from seen), true)
      returning *)
    update <job> as job set status = <to:succeed>, lease = {ENDED_LEASE}, attempt = {_NEXT_ATTEMPT},
      worker = taken.worker, claimed_at = greatest(taken.claimed_at, job.created_at),
      started_at = greatest(taken.claimed_at, job.created_at,
                            coalesce(moment.now - $6::bigint * interval '1 millisecond', taken.started_at)),
      finished_at = greatest(taken.claimed_at, job.created_at, moment.now), result = $5::text::jsonb,
      error_code = null, error_detail = null, traceback = null,
      progress = case when $7::int = 1 or taken.progress is not null or job.progress is not null and {_HAS_STEPS}
                      then 1.0 end,
      progress_message = case when $7::int = 1 then $8::text
                              when taken.progress is not null then taken.progress_message
                              when job.progress_message is not null and {_HAS_STEPS} then job.progress_message end
    from (select <now> as now) as moment, taken
    where job.id = $2::bigint
    returning {FOLLOWED}"""

in_use = """
    select exists (select from <edge> where state = 'open'), exists (select from <slot>),
      exists (select from <waiter>)"""

find_expired_ready = """
    select job.id, 'not started by ' || <shown:job.expires_at> from (
      select id from <ready> where expires_at is not null and expires_at <= (select <now>)
      order by expires_at limit $2::int for update skip locked) as first cross join lateral (
      select id, expires_at from <job> where id = first.id and status = <pending> and held is null
      for update skip locked) as job"""
# the ready row is locked, so that no worker claims the job now
find_overdue_ready = f"""
    select job.id, {OVERDUE} from (
      select id from <job> as job
      where {HAS_DEADLINE} and status = <pending> and held is null and deadline_at <= (select <now>) and {NO_CLAIM}
      order by deadline_at limit $2::int) as first
    cross join lateral (select * from <job> where id = first.id offset 0) as known
    cross join lateral (
      select 1 from <ready> as ready where {OF_JOB.replace("job.", "known.")} for update skip locked) as ready
    cross join lateral (
      select * from <job> where id = first.id and status = <pending> and held is null for update skip locked) as job"""
_LATELY = "(select <now>) - $4::bigint * interval '1 millisecond'"
find_unknown = f"""
    select job.id, job.error_detail, job.error_code from (
      select id from <ready> as ready where queue = $2::text and type = $3::text and since <= {_LATELY}
        and not exists (select from <attempt> as attempt
                        where attempt.job_id = ready.id and attempt.finished_at > {_LATELY})
      order by rank, turn, id limit $5::int for update skip locked) as first cross join lateral (
      select id, error_detail, error_code from <job> where id = first.id and status = <pending> and held is null
      for update skip locked) as job"""
# the status is in no index this way: by their ids, the jobs are found by the primary key
end_waiting = f"""
    update <job> as job set status = $3::text, lease = <next:job.lease>, held = null,
      {of_claim("job")},
      finished_at = moment.now, result = case when $3::text = <succeeded> then $7::text::jsonb else job.result end,
      error_code = $5::text, error_detail = $6::text::jsonb ->> job.id::text,
      traceback = case when $3::text = <succeeded> then null else job.traceback end,
      on_end = coalesce(job.on_end, $8::text::jsonb)
    from (select <now> as now) as moment
    where job.id <in_ids:2> and job.status || '' not in <finished>
      and ($4::text is null or job.status || '' = $4::text)
    returning job.id, job.queue::text, job.type::text, job.attempt, {FOLLOWED}"""

_WHOLE = "coalesce(substring(next ->> '{}' from '^-?[0-9]{{1,9}}$')::int, {})"
_AT = "coalesce(finished_at, <now>)"
follow_up = f"""
    insert into <job> {NEXT_COLUMNS}
    select next ->> 'type', next ->> 'queue', {_WHOLE.format("priority", 0)},
           greatest(1, {_WHOLE.format("max_attempts", 1)}), <to:enqueue>, {_AT}, {_AT}, trace_context, tags,
           jsonb_build_object('job', jsonb_build_object(
             'id', id, 'type', type, 'queue', queue, 'event', status, 'attempt', attempt,
             'max_attempts', max_attempts, 'error_code', error_code, 'error_detail', error_detail, 'result', result,
             'arguments', case jsonb_typeof(payload) when 'object' then payload
                          else jsonb_build_object('{RAW_KEY}', payload::text) end))
    from (select job.*, on_end -> status::text as next from <job> as job
          where id <in_ids:2> and on_end is not null and status || '' in <finished> order by id) as job
    where length(next ->> 'type') between 1 and 200 and length(next ->> 'queue') between 1 and 200
    returning id"""
keep_blobs = f"""
    insert into <blob_ref> (job_id, digest)
    select job.id, substr(value ->> '{BLOB_KEY}', 8)
    from <job> as job cross join lateral (
      values (payload -> 'job' -> 'arguments'), (payload -> 'job' -> 'result')) as stored (value)
    where job.id <in_ids:1> and jsonb_typeof(value -> '{BLOB_KEY}') = 'string'
    on conflict do nothing returning job_id"""
