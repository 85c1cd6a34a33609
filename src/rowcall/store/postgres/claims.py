"""Texts about claims: which jobs may run, and who holds them.

A clock in a condition is in a subquery: bare, it would be read for each row, and no index could be used.
"""

from __future__ import annotations

from rowcall.store.postgres.words import HIGHEST_ID, field_of, fields
from rowcall.store.postgres.workers import WORKER_KEY
from rowcall.store.queries.claims import OF_JOB, Mark
from rowcall.store.schema import EXPIRES_OUTSIDE, HAS_DEADLINE, NO_CLAIM

_IS_PLAIN = (
    "job.lease = 0 and job.attempt = 0 and job.lost = 0 and job.max_attempts > 1"
    " and (job.turn is null or job.fair is not null)"
    " and job.expires_at is null and job.chain_id is null and job.key is null and job.limits is null"
    " and job.tags is null and job.target is null and job.ordered is null and job.unfit is null"
    " and job.deadline_at is null and job.parent_id is null"
)
_READY_COLUMNS = ", ".join(
    [
        "job.id, job.type, job.queue, job.payload::text, job.max_attempts, job.priority, <ms:job.run_at>",
        f"<ms:job.created_at>, job.timeout, job.retry, job.trace_context, {_IS_PLAIN}, job.attempt + 1, job.lease + 1",
        "job.lost, job.key, job.tags::text, job.chain_id, job.chain_index, <ms:job.expires_at>, job.limits, job.target",
        "job.turn, job.fair, job.ordered, job.unfit",
        "case when <is_time:job.deadline_at> then <ms:job.deadline_at> end, job.parent_id",
    ]
)
_IS_READY = "status = <pending> and held is null"
_NOT_EXPIRED = "(job.expires_at is null or job.expires_at > (select <now>) or job.attempt > 0)"

_NEXT_DUE = "(select <ms_after:run_at> from <job> where status = <scheduled> order by run_at limit 1)"
# plain SQL may have written an infinite one
_DEADLINE_MS = "case when deadline_at < 'infinity' then <ms_after:greatest(deadline_at, 'epoch')> end"
_NEXT_EXPIRY = f"""
          least((select <ms_after:expires_at> from <ready> where expires_at is not null order by expires_at limit 1),
                (select <ms_after:expires_at> from <job> where {EXPIRES_OUTSIDE} order by expires_at limit 1),
                (select {_DEADLINE_MS} from <job> as job where {HAS_DEADLINE} and {NO_CLAIM}
                 order by deadline_at limit 1))"""
# when a limit of rate or a schedule is to be looked at
_NEXT_WAKE = """
          least((select <ms_after:min(opens_at)> from <opening>),
                (select <ms_after:min(next_run_at)> from <schedule>
                 where paused = 0 and next_run_at is not null))"""
_ANY_UNSURE = "(exists (select from <edge> where unsure <> 0) or exists (select from <parent_check>))"

_BEFORE = f"jsonb_build_array(rank, turn, greatest(id, -{HIGHEST_ID}) - 1)"
_PAIR = f"""(select queue, type, {_BEFORE} as start from <ready> as ready where {{}}
               order by queue, type, rank, turn, id limit 1)"""
_BEHIND_FOUND = "(ready.queue, ready.type) > (found.queue, found.type)"
_ALL = "and (select {own}) is null"
_BEFORE_AFTER = f"and found.queue <= {{after}} {_ALL}"
# From each type of a queue to the next one, by the first row of each; behind the last queue comes the first. If the
# worker has a list of queues, only these are searched. A bare parameter would be folded, and leave sorts of nothing.
_FOUND = f"""
          (select pair.*, 1 from (
             {_PAIR.format("queue > {after}")} union all {_PAIR.format("queue <= {after}")} limit 1) as pair
           where (select {{own}}) is null
           union all select pair.*, 1 from jsonb_array_elements_text({{own}}::jsonb) as own (queue) cross join lateral (
             {_PAIR.format("ready.queue = own.queue")}) as pair)
          union all
          select next.*, found.number + (next.queue <> found.queue)::int from found cross join lateral (
            {_PAIR.format(f"{_BEHIND_FOUND} and found.queue > {{after}} {_ALL}")}
            union all {_PAIR.format(f"ready.queue <= {{after}} and found.queue > {{after}} {_ALL}")}
            union all {_PAIR.format(f"{_BEHIND_FOUND} and ready.queue <= {{after}} {_BEFORE_AFTER}")}
            union all {_PAIR.format("ready.queue = found.queue and ready.type > found.type and (select {own}) <> ''")}
            limit 1) as next
          where found.number + (next.queue <> found.queue)::int <= {{most}}"""
_AS_JSON = "select coalesce(jsonb_agg(jsonb_build_array(queue, type, start)), '[]'::jsonb)::text from found"


_NEXT_QUEUES = _FOUND.format(after="$3::text", most="$4::int", own="$5::text")


def _find_work(registered: str, more: str = "", found: str = _NEXT_QUEUES) -> str:
    return f"""
        with recursive found (queue, type, start, number) as ({found}
        ){more}
        select ({_AS_JSON}),
          date_part('epoch', clock_timestamp() - statement_timestamp()),  -- before the other columns are computed
          <ms:(select <now>)>, {_NEXT_DUE}, {_NEXT_EXPIRY}, exists ({registered}), {_NEXT_WAKE},
          (select coalesce(jsonb_agg(jsonb_build_array(kind, name)), '[]'::jsonb)::text from <pause>),
          exists (select from <edge> where state = 'open'), {_ANY_UNSURE}, exists (select from <slot>),
          exists (select from <waiter>), false"""


find_queues = f"""
    with recursive found (queue, type, start, number) as (
      {_FOUND.format(after="$1::text", most="$2::int", own="$3::text")})
    {_AS_JSON}"""
# claim
find_work = _find_work("select from <worker> where name = $2::text")
# Waits for a transaction that is about to declare this worker lost; whether it did so is seen by `claim`. A lock on the
# row would make a multixact with each heartbeat.
_HELD = f""", held as materialized (
            select pg_advisory_xact_lock_shared({WORKER_KEY}) from <worker> where name = $2::text)"""
find_work_and_lock = _find_work("select from held", _HELD)
find_other_work_and_lock = _find_work(
    "select from held",
    _HELD,
    "select pair ->> 0, pair ->> 1, null::jsonb, 1 from jsonb_array_elements($3::text::jsonb) as given (pair)",
)
peek = f"""
    select <ms:(select <now>)>,
      (select true from <ready> order by queue, type, rank, turn, id limit 1) is not null,
      {_NEXT_DUE}, {_NEXT_EXPIRY}, {_NEXT_WAKE}, {_ANY_UNSURE}"""


def _ready(rows: str, lock: str = "for update skip locked") -> str:
    """Return what is known about the jobs of some ready rows. Only the ready rows are locked."""
    return f"""select job.* from ({rows} {lock}) as first cross join lateral (
        select {_READY_COLUMNS}, first.ctid::text from <job> as job
        where id = first.id and lease = first.lease and {_IS_READY} and {_NOT_EXPIRED} offset 0) as job"""


# It goes through every row that was deleted since the last vacuum, so it begins where its caller says: see `Starts`.
_IN_ORDER = "order by rank, turn, id"
_OF_TYPE = "select ctid, id, lease from <ready> where queue = $2::text and type = {} and (rank, turn, id) > ({})"
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
        {_OF_ASKED.replace("ctid, id, lease", "rank, turn, id")} {_IN_ORDER} limit $3::int) as head
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
_CLAIM_COLUMNS = "(job_id, lease, holder, worker, attempt, claimed_at, started_at, lease_ms, lease_until)"
# A row that changed after the snapshot of the statement can be locked, but not deleted: such a job is not claimed. A
# worker that was declared lost before the round had its lock claims nothing: `find_work_and_lock` may not have seen it.
claim = f"""
    with taken as (
      delete from <ready> where ctid = any ($2::text::tid[])
        and ($6::bigint is not null or exists (select from <worker> where name = $4::text))
      returning id, lease, attempt
    ), claimed as (
      insert into <claim> {_CLAIM_COLUMNS}
      select id, lease + 1, $3::bigint, $4::text, attempt + 1, moment.now,
             case when id = any ((select $5::text::bigint[])::bigint[]) = ($8::int = 1) then moment.now end, $6::bigint,
             moment.now + $6::bigint * interval '1 millisecond'
      from (select <now> as now) as moment, taken
      on conflict (job_id) do nothing returning job_id)
    select case when count(*) < $7::int then coalesce(array_agg(job_id), '{{}}') end from claimed"""
# waits for a claim that has not been committed yet
lock_ready_of = f"""
    select 1 from <job> as job cross join lateral (
      select 1 from <ready> as ready where {OF_JOB} for update) as ready
    where job.id = any ($1::text::bigint[]) and job.status = <pending> and job.held is null"""


lock_ready = "lock table <ready> in share row exclusive mode"
_mark = fields(Mark, "claim.job_id")
mark = f"""
    with given as materialized (select $3::text::jsonb as document)
    update <claim> as claim set
      started_at = case when {_mark.started_age_ms} is null then started_at
                        else greatest(claimed_at, moment.now - {_mark.started_age_ms} * interval '1 millisecond') end,
      progress = coalesce(({field_of("claim.job_id", 4)})::float8, progress),
      progress_message = case when {field_of("claim.job_id", 4)} is null then progress_message else {_mark.message} end,
      heartbeat_at = case when {field_of("claim.job_id", 4)} is null then heartbeat_at
                          else moment.now - {_mark.age_ms} * interval '1 millisecond' end
    from (select <now> as now) as moment
    where job_id = any (array(
        select job_id from <claim> where job_id = any ($2::text::bigint[]) for update skip locked))
      and lease = {_mark.lease} and holder = {_mark.holder}
      and not ({_mark.replays} <> 0 and exists (select from <step> as step where step.job_id = claim.job_id offset 0))
    returning 1"""

is_consumed = """
    select (exists (select from <claim> as claim cross join lateral (
                      select queue, type from <job> where id = claim.job_id offset 0) as job
                    where claim.lease_until is not null and job.queue = $2::text and job.type = $3::text)
         or exists (select from <job> where status = <succeeded> and queue = $2::text and type = $3::text
                    and finished_at >= (select <now>) - $4::bigint * interval '1 millisecond'))::int"""
