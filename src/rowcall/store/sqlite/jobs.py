"""Texts about jobs."""

from __future__ import annotations

from rowcall.store.queries.jobs import IS_GONE, KEPT_PROGRESS, WRITE, Settlement, Success
from rowcall.store.schema import READY_COLUMNS, READY_ROW
from rowcall.store.sqlite.words import LARGEST, given

_PLAIN_COLUMNS = (
    "job.id, job.type, job.queue, job.payload, job.max_attempts, job.priority, job.run_at, job.created_at, job.timeout,"
    " job.retry, job.trace_context"
)
_READY_COLUMNS = (
    f"{_PLAIN_COLUMNS}, json('false'), <next:job.attempt>, <next:job.lease>, job.lost, job.key, job.tags, job.chain_id,"
    " job.chain_index, job.expires_at, job.limits, job.target, job.turn, job.fair, job.ordered"
)
_IS_PLAIN = (
    "job.lease = 0 and job.attempt = 0 and job.lost = 0 and job.max_attempts > 1 and job.turn is null"
    " and job.expires_at is null and job.chain_id is null and job.key is null and job.limits is null"
    " and job.tags is null and job.target is null and job.ordered is null"
)
_WAITING = "status in <waiting>"
# when the next schedule or rate limit is due
_WAKE = """(select min(at) from (
        select min(opens_at) as at from <opening>
        union all
        select min(next_run_at) from <schedule> indexed by <prefix>schedule_due
        where paused = 0 and next_run_at is not null))"""
_MISMATCHED = "<job> indexed by <prefix>job_mismatched where status = <pending> and held = 'mismatch'"


def ready_jobs(types: int) -> str:
    """Return the text for the first jobs of some types of one queue.

    Each type is read in order, and SQLite merges them lazily.
    """
    arm = "select type, rank, turn, id from <ready> where queue = $2 and type = "
    arms = " union all ".join(f"{arm}${4 + number}" for number in range(types))
    return f"""
        select json_group_array(case when {_IS_PLAIN} then json_array({_PLAIN_COLUMNS})
          else json_array({_READY_COLUMNS}) end)
        from ({arms} order by rank, turn, id limit $3) as first
        cross join <job> as job on job.id = first.id
        where +job.status = <pending> and job.held is null
          -- after INSERT OR REPLACE, which fires no trigger for the old row, a job may have two ready rows
          and +job.queue = $2 and +job.type = first.type and ~job.priority = first.rank
          and coalesce(job.turn, job.id) = first.turn
          and (job.expires_at is null or job.expires_at > <now> or job.attempt > 0)"""


insert = """
    insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at,
                       timeout, retry, tags, expires_at, trace_context, on_end, target, limits, fair, weight, ordered,
                       order_blocks)
    values ($2, $3, $4, case when coalesce($7, <now> + $8) > <now> then <to:postpone> else <to:enqueue> end, $5, $6,
            coalesce($7, <now> + $8), <now>, $9, $10, $11, coalesce($12, <now> + $13), $14, $15, $16, $17, $18, $19,
            $20, $21)
    returning id, status, run_at, created_at, expires_at"""
# what most jobs are: due at once, with nothing special
insert_plain = """
    insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at)
    values ($1, $2, $3, <to:enqueue>, $4, $5, <clock>, <clock>)
    returning id, created_at"""
insert_many = """
    insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at,
                       timeout, retry, tags, expires_at, trace_context, on_end, target, limits, fair, weight, ordered,
                       order_blocks)
    select $2, $3, case when $17 then json_extract(value, '$[0]') else value end,
           case when coalesce($7, <now> + $8) > <now> then <to:postpone> else <to:enqueue> end, $5, $6,
           coalesce($7, <now> + $8), <now>, $9, $10, $11, coalesce($12, <now> + $13), $14, $15, $16,
           case when $17 then json_extract(value, '$[1]') end,
           case when $17 then json_extract(value, '$[2]') end,
           case when $17 then json_extract(value, '$[3]') end,
           case when $17 then json_extract(value, '$[4]') end,
           case when $17 then json_extract(value, '$[5]') end
    from json_each($4)"""
# see the trigger that looks for this row
begin_bulk = """
    insert into <claim> (id, claimed_at, first_id, last_id, started, worker)
    select 0, coalesce((select seq from sqlite_sequence where name = '<job>' collate nocase), 0), 0, 0, 0, ''"""
# a trigger of the app may have inserted others, or made some ready
make_ready = f"""
    insert or ignore into <ready> {READY_COLUMNS} select {READY_ROW.format("job")} from <job> as job
    where id > (select claimed_at from <claim> where id = 0) and status = <pending> and held is null"""
end_bulk = "delete from <claim> where id = 0"
insert_many_returning = f"{insert_many} returning id, status, run_at, created_at, expires_at"
last_inserted = "select id, status, run_at, created_at, expires_at from <job> where id = last_insert_rowid()"

find_work = f"""
    with recursive found (pair) as (
      select (select json_array(queue, type, null) from <ready> order by queue, type limit 1)
      union all
      select coalesce(
        (select json_array(queue, type, null) from <ready>
         where queue = json_extract(pair, '$[0]') and type > json_extract(pair, '$[1]') order by type limit 1),
        (select json_array(queue, type, null) from <ready>
         where queue > json_extract(pair, '$[0]') order by queue, type limit 1))
      from found where pair is not null
    )
    select (select json_group_array(json(pair)) from found where pair is not null), 0.0, <now>,
      (select min(run_at) from <job> indexed by <prefix>job_due where status = <scheduled>),
      (select min(expires_at) from <job> indexed by <prefix>job_expiry
       where expires_at is not null and attempt = 0 and {_WAITING}),
      exists (select 1 from <worker> where name = $2),
      {_WAKE},
      (select json_group_array(json_array(kind, name)) from <pause>),
      exists (select 1 from <edge> indexed by <prefix>edge_open where state = 'open'), 0,
      exists (select 1 from <slot>), exists (select 1 from <waiter>)"""
find_work_and_lock = find_work
peek = f"""
    select <now>, exists (select 1 from <ready>),
      (select min(run_at) from <job> indexed by <prefix>job_due where status = <scheduled>),
      (select min(expires_at) from <job> indexed by <prefix>job_expiry
       where expires_at is not null and attempt = 0 and {_WAITING}), {_WAKE}, 0"""
any_tag = "select exists (select 1 from <job_tag>)"
# it returns rows, as a statement on a caller's connection has to
retag = """
    update <job_tag> set status = (select status from <job> where id = job_id)
    where job_id in (select value from json_each($1)) returning job_id"""
retag_due = """
    update <job_tag> set status = <to:stage> where job_id in (
      select id from <job> indexed by <prefix>job_due where status = <scheduled> and run_at <= <now>
      order by run_at limit $2)"""
mark_claimed_alike = f"""
    update <job> as job set status = <to:claim>, attempt = <next:attempt>, lease = <next:lease>, worker = $2,
      claimed_at = max(<now>, created_at), started_at = case when $5 then max(<now>, created_at) end,
      lease_ms = $4, lease_until = <now> + $4, held = null,
      finished_at = null, heartbeat_at = null, {KEPT_PROGRESS}, result = null,
      error_code = null, error_detail = null, traceback = null
    where id in (select value from json_each($3))"""

mismatched = f"""
    select <now>, (
      select json_group_array(json_array(id, queue, type, payload, priority, coalesce(turn, id),
                                         coalesce(held_until, run_at)))
      from (select id, queue, type, payload, priority, turn, held_until, run_at
            from {_MISMATCHED} and id > $2 order by id limit $3))"""
offered_jobs = f"""
    select json_group_array(json_array({_READY_COLUMNS}))
    from json_each($2) as given cross join <job> as job on job.id = given.value
    where job.status = <pending> and job.held = 'mismatch'
      and (job.expires_at is null or job.expires_at > <now> or job.attempt > 0)"""
find_unknown = """
    select id from <ready> where queue = $2 and type = $3 and since <= <now> - $4 order by rank, turn, id limit $5"""
end_waiting = """
    update <job> set status = $3, lease = <next:lease>, lease_until = null, held = null, finished_at = <now>,
      result = case when $3 = <succeeded> then $7 else result end, error_code = $5,
      error_detail = json_extract($6, '$."' || id || '"'),
      traceback = case when $3 = <succeeded> then null else traceback end, on_end = coalesce(on_end, $8)
    where id <in_ids:2> and +status not in <finished> and ($4 is null or +status = $4)
    returning id, queue, type, attempt"""
is_consumed = """
    select exists (select 1 from <job> indexed by <prefix>job_leased
                   where status = <running> and lease_until is not null and queue = $2 and type = $3)
        or exists (select 1 from <job> indexed by <prefix>job_aged
                   where status = <succeeded> and queue = $2 and type = $3 and finished_at >= <now> - $4)"""

insert_claims = """
    insert into <claim> (worker, claimed_at, first_id, last_id, started)
    select $2, <now>, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
    from json_each($3)"""
# all ids of the run are claimed, whatever their turn
delete_ready_run = """
    delete from <ready> where queue = $1 and type = $2 and rank = $3 and turn between $4 and $5
      and id between $4 and $5"""
delete_ready = """
    delete from <ready> where queue = $1 and type = $2 and rank = $3 and turn between $4 and $5
      and id in (select value from json_each($6))"""

write_free_claims_of_jobs = f"{WRITE} and job.id <in_ids:1>"
write_claims = f"{WRITE} and claim.id <in_ids:1>"
write_claims_of_worker = f"{WRITE} and claim.worker = <text:1>"
write_claims_of_gone = f"{WRITE} and {IS_GONE}"

changes = "select changes()"
_BEGAN = "coalesce(max($4, created_at), claimed_at, created_at)"
_CLAIM = """attempt = attempt + $5 - 1, worker = coalesce($3, worker),
      claimed_at = coalesce(max($4, created_at), claimed_at), heartbeat_at = case when $3 is null then heartbeat_at end,
      progress = case when $3 is null and progress is not null then 1.0 end,
      progress_message = case when $3 is null then progress_message end, error_code = null, error_detail = null,
      traceback = null"""
settle_successes = f"""
    update <job> set status = <to:succeed>, lease = min(<job>.lease + $5, {LARGEST}), lease_until = null, {_CLAIM},
      started_at = coalesce(max({_BEGAN}, <now> - given.started_age_ms), started_at, max($4, created_at)),
      finished_at = max({_BEGAN}, <now> - given.finished_age_ms), result = given.result,
      chain_id = case when given.begins_chain then <job>.id else chain_id end,
      chain_index = case when given.begins_chain then 0 else chain_index end
    from {given(Success, "$2")}
    where <job>.id between given.id and given.id + given.count - 1 and <job>.lease = given.lease"""
# id, count and both ages in one number: reading five values out of an array took half of the settle
settle_packed = f"""
    update <job> set status = <to:succeed>, lease = <job>.lease + $5, lease_until = null, result = null, {_CLAIM},
      started_at = max({_BEGAN}, <now> - ((given.value >> 10) & 1023)),
      finished_at = max({_BEGAN}, <now> - (given.value & 1023))
    from json_each($2) as given
    where <job>.id between given.value >> 32 and (given.value >> 32) + ((given.value >> 20) & 4095)
      and <job>.lease = $6"""
record_attempts = f"""
    insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                           error_detail, traceback, next_run_at, lease)
    select job.id, job.attempt, given.attempt_status, coalesce(job.claimed_at, job.created_at),
           case when given.hold_ms is null then
             coalesce(max(coalesce(job.claimed_at, job.created_at), <now> - given.started_age_ms),
                      job.started_at) end,
           max(coalesce(job.claimed_at, job.created_at), <now> - given.finished_age_ms), job.worker,
           given.error_code, given.error_detail, given.traceback, coalesce(given.run_at_ms, <now> + given.delay_ms),
           <next:job.lease>
    from {given(Settlement, "$3")} cross join <job> as job
    where given.attempt_recorded and job.id = given.id and job.lease = given.lease"""
settle_others = f"""
    update <job> set status = given.status, lease = <next:<job>.lease>, lease_until = null,
      attempt = max(0, attempt - given.attempt_returned), lost = min(<job>.lost + given.lost, {LARGEST}),
      claimed_at = case when given.final then claimed_at end,
      started_at = case when given.final
        then coalesce(max(coalesce(claimed_at, created_at), <now> - given.started_age_ms), started_at) end,
      finished_at = case when given.final
        then max(coalesce(claimed_at, created_at), <now> - given.finished_age_ms) end,
      run_at = coalesce(given.run_at_ms, <now> + given.delay_ms, run_at),
      expires_at = case when given.attempt_returned and given.attempt_recorded and given.hold_ms is null
                        then null else expires_at end,
      held = case when given.hold_ms is null then held else 'mismatch' end,
      held_until = case when given.hold_ms is null then case when not given.attempt_recorded then held_until end
                        when held_until > <now> then held_until else <now> + given.hold_ms end,
      result = given.result, error_code = given.error_code, error_detail = given.error_detail,
      traceback = given.traceback
    from {given(Settlement, "$3")}
    where <job>.id = given.id and <job>.lease = given.lease"""

live = """
    select json_group_array(job.id) from json_each($1) as given cross join <job> as job
    where job.id = json_extract(given.value, '$[0]') and job.lease = json_extract(given.value, '$[1]')"""
savepoint = "savepoint rowcall_settle"
back_to_savepoint = "rollback to rowcall_settle"
complete = """
    update <job> set status = <to:succeed>, lease = <next:lease>, lease_until = null, result = $4,
      progress = case when progress is not null then 1.0 end,
      started_at = coalesce(max(coalesce(claimed_at, created_at), <now> - $5), started_at),
      finished_at = max(coalesce(claimed_at, created_at), <now>)
    where id = $2 and lease = $3
    returning id"""
mark_started = """
    update <job> set started_at = max(claimed_at, <now> - json_extract(given.value, '$[1]'))
    from json_each($3) as given
    where <job>.id = cast(given.key as integer) and <job>.lease = json_extract(given.value, '$[0]')"""
mark_progress = """
    update <job> set progress = json_extract(given.value, '$[1]'),
      progress_message = json_extract(given.value, '$[2]'), heartbeat_at = <now> - json_extract(given.value, '$[3]')
    from json_each($3) as given
    where <job>.id = cast(given.key as integer) and <job>.lease = json_extract(given.value, '$[0]')
      and not (json_extract(given.value, '$[4]') and exists (select 1 from <step> where job_id = <job>.id))
    returning 1"""
in_use = """
    select exists (select 1 from <edge> indexed by <prefix>edge_open where state = 'open'),
      exists (select 1 from <slot>), exists (select 1 from <waiter>)"""
