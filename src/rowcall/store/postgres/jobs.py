"""Texts about jobs.

A clock in a condition is in a subquery: bare, it would be read for each row, and no index could be used.
"""

from __future__ import annotations

from rowcall.store.postgres.words import HIGHEST_ID, MOST_COUNT, MOST_LEASE, field, fields, time_of
from rowcall.store.queries.jobs import IS_GONE, KEPT_PROGRESS, OF_JOB, WRITE, Settlement, Success
from rowcall.store.schema import IS_CLAIMED

# plain SQL may have put the highest number there: such a job harms only itself
_NEXT_ATTEMPT = f"least(job.attempt, {MOST_COUNT - 1}) + 1"
_IS_PLAIN = (
    "job.lease = 0 and job.attempt = 0 and job.lost = 0 and job.max_attempts > 1"
    " and (job.turn is null or job.fair is not null)"
    " and job.expires_at is null and job.chain_id is null and job.key is null and job.limits is null"
    " and job.tags is null and job.target is null and job.ordered is null"
)
_READY_COLUMNS = ", ".join(
    [
        "job.id, job.type, job.queue, job.payload::text, job.max_attempts, job.priority, <ms:job.run_at>",
        f"<ms:job.created_at>, job.timeout, job.retry, job.trace_context, {_IS_PLAIN}, {_NEXT_ATTEMPT}",
        "<next:job.lease>, job.lost, job.key, job.tags::text, job.chain_id, job.chain_index, <ms:job.expires_at>",
        "job.limits, job.target, job.turn, job.fair, job.ordered",
    ]
)
_IS_READY = "status = <pending> and held is null"
_MISMATCHED = "status = <pending> and held = 'mismatch'"
_WAITING = "status in <waiting>"
_NOT_EXPIRED = "(job.expires_at is null or job.expires_at > (select <now>) or job.attempt > 0)"
LISTENING = "exists (select from <worker> where listening)"
_TO_QUEUE = "listening and (served is null or served ? $3::text)"
_ANY_EVENT_READER = "exists (select from <waiter> where job_id = 0)"
_LISTENING_TO_QUEUE = f"(exists (select from <worker> where {_TO_QUEUE}) or {_ANY_EVENT_READER})"

_NEXT_DUE = "(select <ms_after:run_at> from <job> where status = <scheduled> order by run_at limit 1)"
_NEXT_EXPIRY = (
    f"(select <ms_after:expires_at> from <job>"
    f" where expires_at is not null and attempt = 0 and {_WAITING} order by expires_at limit 1)"
)

# when a limit of rate or a schedule is to be looked at
_NEXT_WAKE = """
          least((select <ms_after:min(opens_at)> from <opening>),
                (select <ms_after:min(next_run_at)> from <schedule>
                 where paused = 0 and next_run_at is not null))"""
_ANY_UNSURE = "exists (select from <edge> where unsure <> 0)"

_INSERTED_COLUMNS = (
    "type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry, tags, expires_at,"
    " trace_context, on_end, target, limits, fair, weight, ordered, order_blocks"
)
_GIVEN = f"""
  (select now, coalesce({time_of("$7")}, now + $8::bigint * interval '1 millisecond') as run_at,
          coalesce({time_of("$12")}, now + $13::bigint * interval '1 millisecond') as expires_at
   from (select <now> as now) as clock) as given"""
_DUE = "case when given.run_at > given.now then <to:postpone> else <to:enqueue> end"

_STATEMENT_TIME = "date_trunc('milliseconds', statement_timestamp())"

_BEGAN = "coalesce(job.claimed_at, job.created_at)"


# Groups are never joined with the table: on a table that was analyzed while it was nearly empty, the planner turns such
# a join round, and the plan stays in the cache when a million rows have come. By `id = any(…)` it has one way only, and
# what belongs to a row is found by its position among the sorted ids, or under its id in a document.


def _given(parameter: str) -> str:
    """Return the value at the row's position of an array that goes with the sorted ids in parameter 2."""
    return f"((select {parameter}::text::bigint[]))[width_bucket(job.id, (select $2::text::bigint[]))]"


_ended, _succeeded = fields(Settlement), fields(Success)


def _started(age_ms: str) -> str:
    return (
        f"case when {age_ms} is null then job.started_at"
        f" else greatest({_BEGAN}, moment.now - {age_ms} * interval '1 millisecond') end"
    )


def _finished(age_ms: str) -> str:
    return f"greatest({_BEGAN}, moment.now - {age_ms} * interval '1 millisecond')"


_BEFORE = f"jsonb_build_array(rank, turn, greatest(id, -{HIGHEST_ID}) - 1)"
_FOUND = f"""
          (select queue, type, {_BEFORE} from <ready> order by queue, type, rank, turn, id limit 1)
          union all
          select next.* from found cross join lateral (
            select queue, type, {_BEFORE} from <ready> where (queue, type) > (found.queue, found.type)
            order by queue, type, rank, turn, id limit 1) as next"""


def _find_work(registered: str, more: str = "", found: str = _FOUND) -> str:
    return f"""
        with recursive found (queue, type, place) as ({found}
        ){more}
        select (select coalesce(jsonb_agg(jsonb_build_array(queue, type, place)), '[]'::jsonb)::text from found),
          date_part('epoch', clock_timestamp() - statement_timestamp()),  -- before the other columns are computed
          <ms:(select <now>)>, {_NEXT_DUE}, {_NEXT_EXPIRY}, exists ({registered}), {_NEXT_WAKE},
          (select coalesce(jsonb_agg(jsonb_build_array(kind, name)), '[]'::jsonb)::text from <pause>),
          exists (select from <edge> where state = 'open'), {_ANY_UNSURE}, exists (select from <slot>),
          exists (select from <waiter>)"""


schema_of_tables = """
    select quote_ident(nspname) from pg_namespace
    where oid = (select relnamespace from pg_class where oid = to_regclass('<job>'))"""
identity = """
    select (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint,
      (select oid::bigint from pg_database where datname = current_database()),
      coalesce(to_regclass('<job>')::oid::bigint, 0), 'text'::text, 7::int4, 0.5::float8"""

# enqueue
insert = f"""
    insert into <job> ({_INSERTED_COLUMNS})
    select $2::text, $3::text, $4::text::jsonb, {_DUE}, $5::int, $6::int, given.run_at, given.now,
           $9::float8, $10::text, $11::text::jsonb, given.expires_at, $14::text, $15::text::jsonb, $16::text, $17::text,
           $18::text, $19::int, $20::text, $21::int
    from {_GIVEN}
    returning id, status, <ms:run_at>, <ms:created_at>, <ms:expires_at>, {_LISTENING_TO_QUEUE}"""

insert_plain = f"""
    insert into <job> (type, queue, payload, status, run_at, created_at, priority, max_attempts)
    values ($1::text, $2::text, $3::text::jsonb, <to:enqueue>, {_STATEMENT_TIME}, {_STATEMENT_TIME}, $4::int, $5::int)
    returning id, <ms:created_at>, {_LISTENING_TO_QUEUE.replace("$3", "$2")}"""
insert_many = f"""
    with inserted as (
      insert into <job> ({_INSERTED_COLUMNS})
      select $2::text, $3::text, case when $17::int = 1 then one.given -> 0 else one.given end, {_DUE}, $5::int,
             $6::int, given.run_at, given.now, $9::float8, $10::text, $11::text::jsonb, given.expires_at, $14::text,
             $15::text::jsonb, $16::text,
             case when $17::int = 1 then one.given ->> 1 end, case when $17::int = 1 then one.given ->> 2 end,
             case when $17::int = 1 then (one.given ->> 3)::int end, case when $17::int = 1 then one.given ->> 4 end,
             case when $17::int = 1 then (one.given ->> 5)::int end
      from {_GIVEN}, jsonb_array_elements($4::text::jsonb) with ordinality as one (given, position)
      returning id, status, run_at, created_at, expires_at)
    select string_agg(id::text, ',' order by id), min(status), <ms:min(run_at)>, <ms:min(created_at)>,
           <ms:min(expires_at)>, {_LISTENING_TO_QUEUE}
    from inserted"""

# claim
find_work = _find_work("select from <worker> where name = $2::text")
# waits for a transaction that is about to declare this worker lost, and sees its outcome
_HELD = ", held as (select 1 from <worker> where name = $2::text for key share)"
find_work_and_lock = _find_work("select from held", _HELD)
find_other_work_and_lock = _find_work(
    "select from held",
    _HELD,
    "select pair ->> 0, pair ->> 1, null::jsonb from jsonb_array_elements($3::text::jsonb) as given (pair)",
)
peek = f"""
    select <ms:(select <now>)>,
      (select true from <ready> order by queue, type, rank, turn, id limit 1) is not null,
      {_NEXT_DUE}, {_NEXT_EXPIRY}, {_NEXT_WAKE}, {_ANY_UNSURE}"""


def _ready(rows: str, lock: str = "for update skip locked") -> str:
    """Return what is known about the jobs of some ready rows. Only the ready rows are locked."""
    return f"""select job.* from ({rows} {lock}) as first cross join lateral (
        select {_READY_COLUMNS}, first.ctid::text from <job> as job
        where id = first.id and {_IS_READY} and {_NOT_EXPIRED} offset 0) as job"""


lock_free = f"""
    select id from <job> where id = any ($1::text::bigint[]) and {_IS_READY} for update skip locked"""


# It goes through every row that was deleted since the last vacuum, so it starts at a given place: see `Places`.
_IN_ORDER = "order by rank, turn, id"
_OF_TYPE = "select ctid, id from <ready> where queue = $2::text and type = {} and (rank, turn, id) > ({})"
_BEHIND = "$5::bigint, $6::bigint, $7::bigint"
ready_of_type = _ready(f"{_OF_TYPE.format('$4::text', _BEHIND)} {_IN_ORDER} limit $3::int")
_ASKED = """
      (select given.one ->> 0 as type, (given.one ->> 1)::bigint as rank, (given.one ->> 2)::bigint as turn,
              (given.one ->> 3)::bigint as id
       from jsonb_array_elements($4::text::jsonb) as given (one)) as asked"""
_OF_ASKED = _OF_TYPE.format("asked.type", "asked.rank, asked.turn, asked.id")
# how many of each type are among the first, then as many of each: a limit for each type alone locks far too many
ready_of_types = f"""
    with first as (
      select asked.type, head.rank, head.turn, head.id
      from {_ASKED} cross join lateral (
        {_OF_ASKED.replace("ctid, id", "rank, turn, id")} {_IN_ORDER} limit $3::int) as head
      order by head.rank, head.turn, head.id limit $3::int
    ), share as materialized (select type, count(*) as jobs from first group by type)
    select mine.* from {_ASKED} join share using (type) cross join lateral (
      {_ready(f"{_OF_ASKED} {_IN_ORDER} limit share.jobs")}) as mine"""
_REST_OF_TYPES = f"{_OF_ASKED} {_IN_ORDER} limit $3::int"
rest_of_types = f"""
    select mine.* from {_ASKED} cross join lateral (
      {_ready(_REST_OF_TYPES)}) as mine"""
ready_ahead = f"""
    select mine.* from {_ASKED} cross join lateral (
      {_ready(_REST_OF_TYPES, "offset 0")}) as mine"""
claim_together = """
    with taken as (delete from <ready> where ctid = any ($4::text::tid[]))
    insert into <claim> (worker, claimed_at, first_id, last_id, started)
    select $2::text, (select <now>), (run ->> 0)::bigint, (run ->> 1)::bigint, (run ->> 2)::smallint
    from jsonb_array_elements($3::text::jsonb) as given (run)"""
# For an idle worker: the claim is one statement, and so one round trip. Few jobs come, so each gets its own claim row.
# All of the first jobs are plain, or none is claimed: those behind a job that is not plain must not start before it.
# A row that changed after the snapshot of the statement can be locked, but not deleted: such a job is not claimed.
claim_first = f"""
    with held as (select 1 from <worker> where name = $8::text for key share
    ), first as materialized (
      {_OF_TYPE.format("$4::text", _BEHIND)} and exists (select from held)
      {_IN_ORDER} limit $3::int for update skip locked
    ), checked as materialized (
      select ctid, id, is_plain from first left join lateral (
        select true as is_plain from <job> as job where job.id = first.id and {_IS_READY} and {_IS_PLAIN}
          and job.fair is null and job.retry is null offset 0) as job on true
    ), taken as materialized (
      select ctid, id from checked where not exists (select from checked where is_plain is null)
    ), removed as (delete from <ready> where ctid = any (array(select ctid from taken)) returning id
    ), claimed as (
      insert into <claim> (worker, claimed_at, first_id, last_id, started)
      select $8::text, (select <now>), id, id, 1 from removed)
    select job.* from taken cross join lateral (
      select {_READY_COLUMNS} from <job> as job where id = taken.id offset 0) as job
    where taken.id = any (array(select id from removed))"""
# waits for a claim that has not been committed yet
lock_ready_of = f"""
    select 1 from <job> as job cross join lateral (
      select 1 from <ready> as ready where {OF_JOB} for update) as ready
    where job.id = any ($1::text::bigint[]) and job.status = <pending> and job.held is null"""


def _write_free(which: str, of_job: str = "") -> str:
    """Return the text that writes claims, except of jobs that another transaction has locked."""
    return f"""{WRITE} and {which} {of_job} and job.id = any (array(
      select free.id from <claim> as claim cross join lateral (
        select id from <job> as job where {IS_CLAIMED} {of_job} for update skip locked) as free
      where {which}))"""


write_free_claims_of_jobs = _write_free("true", "and job.id = any ($1::text::bigint[])")
write_claims = _write_free("claim.id = any ($1::text::bigint[])")
write_claims_of_worker = _write_free("claim.worker = $1::text")
write_claims_of_gone = _write_free(IS_GONE)
lock_ready = "lock table <ready> in share row exclusive mode"
mark_claimed = f"""
    with claimed as (delete from <ready> where ctid = any ($6::text::tid[]))
    update <job> as job set status = <to:claim>, attempt = {_NEXT_ATTEMPT}, lease = <next:job.lease>, worker = $2::text,
      claimed_at = greatest(moment.now, created_at),  -- it may have been committed after the clock was read
      started_at = case when id = any ($3::text::bigint[]) then greatest(moment.now, created_at) end,
      lease_ms = $5::bigint, lease_until = moment.now + $5::bigint * interval '1 millisecond', held = null,
      finished_at = null, heartbeat_at = null, {KEPT_PROGRESS}, result = null,
      error_code = null, error_detail = null, traceback = null
    from (select <now> as now) as moment
    where id = any ($3::text::bigint[] || $4::text::bigint[])"""
_FREE = "job.id = any (array(select id from <job> where id = any ($2::text::bigint[]) for update skip locked))"
mark_started = f"""
    with given as materialized (select $3::text::jsonb as document)
    update <job> as job
    set started_at = greatest(claimed_at, moment.now - ({field(1)})::bigint * interval '1 millisecond')
    from (select <now> as now) as moment
    where {_FREE} and job.lease = ({field(0)})::bigint"""
mark_progress = f"""
    with given as materialized (select $3::text::jsonb as document)
    update <job> as job set progress = ({field(1)})::float8, progress_message = {field(2)},
      heartbeat_at = moment.now - ({field(3)})::bigint * interval '1 millisecond'
    from (select <now> as now) as moment
    where {_FREE} and job.lease = ({field(0)})::bigint
      and not (({field(4)})::boolean and exists (select from <step> where job_id = job.id))
    returning 1"""

# jobs that a worker refused
mismatched = f"""
    select <ms:(select <now>)>, (
      select coalesce(jsonb_agg(jsonb_build_array(id, queue, type, payload::text, priority, coalesce(turn, id),
                                                  <ms_after:coalesce(held_until, run_at)>)
                                order by id), '[]'::jsonb)::text
      from (select * from <job> where {_MISMATCHED} and id > $2::bigint order by id limit $3::int) as job)"""
offered_jobs = f"""
    select {_READY_COLUMNS.replace(_IS_PLAIN, "false")} from <job> as job
    where id = any ($2::text::bigint[]) and {_MISMATCHED} and {_NOT_EXPIRED} for update skip locked"""
find_unknown = f"""
    select job.id from (
      select id from <ready> where queue = $2::text and type = $3::text
        and since <= (select <now>) - $4::bigint * interval '1 millisecond'
      {_IN_ORDER} limit $5::int for update skip locked) as first cross join lateral (
      select id from <job> where id = first.id and {_IS_READY} for update skip locked) as job"""
# the status is in no index this way: by their ids, the jobs are found by the primary key
end_waiting = """
    update <job> as job set status = $3::text, lease = <next:job.lease>, lease_until = null, held = null,
      finished_at = moment.now, result = case when $3::text = <succeeded> then $7::text::jsonb else job.result end,
      error_code = $5::text, error_detail = $6::text::jsonb ->> job.id::text,
      traceback = case when $3::text = <succeeded> then null else job.traceback end,
      on_end = coalesce(job.on_end, $8::text::jsonb)
    from (select <now> as now) as moment
    where job.id <in_ids:2> and job.status || '' not in <finished>
      and ($4::text is null or job.status || '' = $4::text)
    returning job.id, job.queue::text, job.type::text, job.attempt"""
is_consumed = """
    select (exists (select from <job> where status = <running> and lease_until is not null
                    and queue = $2::text and type = $3::text)
         or exists (select from <job> where status = <succeeded> and queue = $2::text and type = $3::text
                    and finished_at >= (select <now>) - $4::bigint * interval '1 millisecond'))::int"""

# settle
# locked until the commit: the attempt and the end of its job are written about the same rows
live = """
    select mine.id from jsonb_array_elements($1::text::jsonb) as given (pair) cross join lateral (
      select id from <job> as job
      where job.id = (given.pair ->> 0)::bigint and job.lease = (given.pair ->> 1)::bigint for update) as mine"""


def _settle_successes(
    lease: str, started_age_ms: str, finished_age_ms: str, more: str, claim: int, given: str = ""
) -> str:
    """Return the text; the parameters `claim` and the next two are the claim that the rows do not have yet."""
    began = "greatest(moment.claimed_at, coalesce(job.claimed_at, job.created_at))"  # of null and a time: the time
    reset = ", ".join(
        f"{column} = case when moment.worker is null then {value} end"
        for column, value in {
            "heartbeat_at": "job.heartbeat_at",
            "progress": "case when job.progress is not null then 1.0 end",
            "progress_message": "job.progress_message",
        }.items()
    )
    # the ids only if some are missing: to read a row for each would take the client as long as all the rest
    return f"""
    with {given} settled as (
    update <job> as job set status = <to:succeed>, lease = least(job.lease, {MOST_LEASE} - moment.step) + moment.step,
      attempt = job.attempt + moment.step - 1, worker = coalesce(moment.worker, job.worker), lease_until = null,
      claimed_at = {began}, started_at = case
        when {started_age_ms} is not null
        then greatest({began}, moment.now - {started_age_ms} * interval '1 millisecond')
        when moment.worker is null then job.started_at else {began} end,
      finished_at = greatest({began}, moment.now - {finished_age_ms} * interval '1 millisecond'),
      {reset}, error_code = null, error_detail = null, traceback = null, {more}
    from (select <now> as now, ${claim}::text as worker, {time_of(f"${claim + 1}")} as claimed_at,
                 ${claim + 2}::int as step) as moment
    where job.id = any ($2::text::bigint[]) and job.lease = {lease}
    returning job.id)
    select case when count(*) < cardinality($2::text::bigint[]) then coalesce(array_agg(id), '{{}}') end from settled"""


settle_plain = _settle_successes(
    _given("$3"), "nullif(" + _given("$4") + ", -1)", _given("$5"), "result = null", claim=6
)
# The ages are found by the position in the run; where jobs between the first and the last are not settled, it is -1.
settle_run = """
    with settled as (
      update <job> as job set status = <to:succeed>, lease = job.lease + 2, attempt = job.attempt + 1,
        worker = moment.worker, claimed_at = greatest(moment.claimed_at, job.created_at),
        started_at = greatest(moment.claimed_at, job.created_at,
          moment.now - ((select $4::text::bigint[]))[job.id - $2::bigint + 1] * interval '1 millisecond'),
        finished_at = greatest(moment.claimed_at, job.created_at,
          moment.now - ((select $5::text::bigint[]))[job.id - $2::bigint + 1] * interval '1 millisecond'),
        heartbeat_at = null, progress = null, progress_message = null, result = null, error_code = null,
        error_detail = null, traceback = null
      from (select <now> as now, $6::text as worker, <time:7> as claimed_at) as moment
      where job.id between $2::bigint and $3::bigint and job.lease = 0
        and ((select $4::text::bigint[]))[job.id - $2::bigint + 1] >= 0
      returning job.id)
    select case when count(*) < $8::int then coalesce(array_agg(id), '{}') end from settled"""
settle_with_results = _settle_successes(
    _succeeded.lease,
    _succeeded.started_age_ms,
    _succeeded.finished_age_ms,
    f"""
      result = {_succeeded.result}::jsonb,
      chain_id = case when {_succeeded.begins_chain} = 1 then job.id else job.chain_id end,
      chain_index = case when {_succeeded.begins_chain} = 1 then 0 else job.chain_index end""",
    claim=4,
    given="given as materialized (select $3::text::jsonb as document),",
)
_NEXT_RUN_AT = f"""coalesce(
        {time_of(_ended.run_at_ms)}, moment.now + {_ended.delay_ms} * interval '1 millisecond')"""
record_attempts = f"""
    with given as materialized (select $3::text::jsonb as document)
    insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                           error_detail, traceback, next_run_at, lease)
    select job.id, job.attempt, {_ended.attempt_status}, {_BEGAN},
           case when {_ended.hold_ms} is null then {_started(_ended.started_age_ms)} end,
           {_finished(_ended.finished_age_ms)}, job.worker, {_ended.error_code},
           {_ended.error_detail}, {_ended.traceback}, {_NEXT_RUN_AT}, <next:job.lease>
    from (select <now> as now) as moment, <job> as job
    where job.id = any ($2::text::bigint[]) and {_ended.attempt_recorded} = 1 and job.lease = {_ended.lease}"""
settle_others = f"""
    with given as materialized (select $3::text::jsonb as document)
    update <job> as job set status = {_ended.status}, lease = <next:job.lease>, lease_until = null,
      attempt = greatest(0, job.attempt - {_ended.attempt_returned}),
      lost = least(job.lost + {_ended.lost}, {MOST_COUNT}),
      claimed_at = case when {_ended.final} = 1 then job.claimed_at end,
      started_at = case when {_ended.final} = 1 then {_started(_ended.started_age_ms)} end,
      finished_at = case when {_ended.final} = 1 then {_finished(_ended.finished_age_ms)} end,
      run_at = coalesce({_NEXT_RUN_AT}, job.run_at),
      expires_at = case when {_ended.attempt_returned} = 1 and {_ended.attempt_recorded} = 1
                        and {_ended.hold_ms} is null then null else job.expires_at end,
      held = case when {_ended.hold_ms} is null then job.held else 'mismatch' end,
      held_until = case when {_ended.hold_ms} is null
                        then case when {_ended.attempt_recorded} = 0 then job.held_until end
                        when job.held_until > moment.now then job.held_until
                        else moment.now + {_ended.hold_ms} * interval '1 millisecond' end,
      result = {_ended.result}::jsonb, error_code = {_ended.error_code}, error_detail = {_ended.error_detail},
      traceback = {_ended.traceback}
    from (select <now> as now) as moment
    where job.id = any ($2::text::bigint[]) and job.lease = {_ended.lease}"""
complete = f"""
    update <job> as job set status = <to:succeed>, lease = <next:job.lease>, lease_until = null,
      result = $4::text::jsonb, progress = case when progress is not null then 1.0 end,
      started_at = {_started("$5::bigint")}, finished_at = greatest({_BEGAN}, moment.now)
    from (select <now> as now) as moment
    where job.id = $2::bigint and job.lease = $3::bigint
    returning job.id"""

in_use = """
    select exists (select from <edge> where state = 'open'), exists (select from <slot>),
      exists (select from <waiter>)"""

notify = f"""
    select pg_notify('<channel>', '')::text where {LISTENING}
    union all
    select pg_notify('<channel_of_ends>', '0')::text where {_ANY_EVENT_READER}"""
# In a separate transaction, which need not wait for the disk: a notification does not outlive the server anyway.
notify_alone = f"{notify} union all select set_config('synchronous_commit', 'off', true)"
