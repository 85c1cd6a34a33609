"""Texts about claims: which jobs may run, and who holds them."""

from __future__ import annotations

from rowcall.store.queries.claims import Mark
from rowcall.store.schema import EXPIRES_OUTSIDE, HAS_DEADLINE, NO_CLAIM, READY_TYPE
from rowcall.store.sqlite.words import given

_PLAIN_COLUMNS = (
    "job.id, job.type, job.queue, job.payload, job.max_attempts, job.priority, job.run_at, job.created_at, job.timeout,"
    " job.retry, job.trace_context"
)
_READY_COLUMNS = (
    f"{_PLAIN_COLUMNS}, json('false'), job.attempt + 1, job.lease + 1, job.lost, job.key, job.tags, job.chain_id,"
    " job.chain_index, job.expires_at, job.limits, job.target, job.turn, job.fair, job.ordered, job.unfit,"
    " case when <is_time:job.deadline_at> then job.deadline_at end, job.parent_id"
)
_IS_PLAIN = (
    "job.lease = 0 and job.attempt = 0 and job.lost = 0 and job.turn is null"
    " and job.expires_at is null and job.chain_id is null and job.key is null and job.limits is null"
    " and job.tags is null and job.target is null and job.ordered is null and job.unfit is null"
    " and job.deadline_at is null and job.parent_id is null"
)
_NEXT_EXPIRY = f"""(select min(at) from (
        select min(expires_at) as at from <ready> indexed by <prefix>ready_expiry where expires_at is not null
        union all
        select min(expires_at) from <job> indexed by <prefix>job_expiry where {EXPIRES_OUTSIDE}
        union all
        select * from (
          select deadline_at from <job> as job indexed by <prefix>job_deadline where {HAS_DEADLINE} and {NO_CLAIM}
          order by deadline_at limit 1)))"""
# when the next schedule or rate limit is due
_WAKE = """(select min(at) from (
        select min(opens_at) as at from <opening>
        union all
        select min(next_run_at) from <schedule> indexed by <prefix>schedule_due
        where paused = 0 and next_run_at is not null))"""


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
          and +job.queue = $2 and {READY_TYPE.format("job")} = first.type and ~job.priority = first.rank
          and coalesce(job.turn, job.id) = first.turn
          and (job.expires_at is null or job.expires_at > <now> or job.attempt > 0)"""


_ANY_UNSURE = "exists (select 1 from <parent_check>)"  # edges are always sure

# A row for each type of a queue. It has an empty type where a queue begins, and none where it ends. Behind the last
# queue comes the first; x'' is greater than any text. If the worker has a list of queues, only these are searched.
_FOUND = """
    with recursive found (queue, type, number) as (
      select coalesce((select min(queue) from <ready> where queue > {after}),
                      (select min(queue) from <ready> where queue <= {after})), '', 1 where {own} is null
      union all select value, '', 1 from json_each({own})
      union all
      select
        case when type is not null then queue when {own} is null then coalesce(
          (select min(queue) from <ready> as ready
           where queue > found.queue and queue <= case when found.queue > {after} then x'' else {after} end),
          (select min(queue) from <ready> where queue <= {after} and found.queue > {after})) end,
        case when type is null then ''
             else (select min(type) from <ready> as ready where queue = found.queue and type > found.type) end,
        number + (type is null)
      from found where queue is not null and number <= {most}
    )
    select (select json_group_array(json_array(queue, type, null)) from found where type <> '')"""
find_queues = _FOUND.format(after="$1", most="$2", own="$3")
find_work = f"""
    {_FOUND.format(after="$3", most="$4", own="$5")}, 0.0, <now>,
      (select min(run_at) from <job> indexed by <prefix>job_due where status = <scheduled>),
      {_NEXT_EXPIRY},
      exists (select 1 from <worker> where name = $2),
      {_WAKE},
      (select json_group_array(json_array(kind, name)) from <pause>),
      exists (select 1 from <edge> indexed by <prefix>edge_open where state = 'open'), {_ANY_UNSURE},
      exists (select 1 from <slot>), exists (select 1 from <waiter>), exists (select 1 from <job_tag>)"""
find_work_and_lock = find_work
peek = f"""
    select <now>, exists (select 1 from <ready>),
      (select min(run_at) from <job> indexed by <prefix>job_due where status = <scheduled>),
      {_NEXT_EXPIRY}, {_WAKE}, {_ANY_UNSURE}"""

# queue, type, rank, the first and the last turn and id, and all ids, or null for a run of ids that are their own turns
_ROWS = """
    from <ready> where queue = ${} and type = ${} and rank = ${}
      and (turn, id) >= (${}, ${}) and (turn, id) <= (${}, ${})
      and case when ${} is null then id between ${} and ${} else id in (select value from json_each(${})) end"""
# then: holder, worker, whether they start now, the lease of a claim by hand, the lease that the jobs will have
claim_rows = f"""
    insert or ignore into <claim> (job_id, lease, holder, worker, attempt, claimed_at, started_at, lease_ms,
                                   lease_until)
    select id, lease + 1, $10, $11, attempt + 1, <now>, case when $12 then <now> end, $13, <now> + $13
    {_ROWS.format(2, 3, 4, 5, 6, 7, 8, 9, 6, 8, 9)} and lease + 1 = $14"""
delete_ready = f"delete {_ROWS.format(1, 2, 3, 4, 5, 6, 7, 8, 5, 7, 8)}"
mark = f"""
    update <claim> set
      started_at = case when given.started_age_ms is null then started_at
                        else max(claimed_at, <now> - given.started_age_ms) end,
      progress = coalesce(given.progress, <claim>.progress),
      progress_message = case when given.progress is null then progress_message else given.message end,
      heartbeat_at = case when given.progress is null then heartbeat_at else <now> - given.age_ms end
    from {given(Mark, "$3")}
    where <claim>.job_id = given.job_id and <claim>.lease = given.lease and <claim>.holder = given.holder
      and not (given.replays and exists (select 1 from <step> where job_id = <claim>.job_id))
    returning 1"""

is_consumed = """
    select exists (select 1 from <claim> as claim indexed by <prefix>claim_leased
                   cross join <job> as job on job.id = claim.job_id
                   where claim.lease_until is not null and job.queue = $2 and job.type = $3)
        or exists (select 1 from <job> indexed by <prefix>job_aged
                   where status = <succeeded> and queue = $2 and type = $3 and finished_at >= <now> - $4)"""
