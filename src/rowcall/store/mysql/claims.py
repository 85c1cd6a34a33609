"""Texts about claims: which jobs may run, and who holds them."""

from __future__ import annotations

from rowcall.store.mysql.words import COLLATION, adapted, given, noted
from rowcall.store.queries.claims import OF_JOB, Mark
from rowcall.store.schema import EXPIRES_OUTSIDE, HAS_DEADLINE, NO_CLAIM

OF_READY = str(adapted(OF_JOB))
_IS_PLAIN = (
    "job.lease = 0 and job.attempt = 0 and job.lost = 0 and job.max_attempts > 1"
    " and (job.turn is null or job.fair is not null)"
    " and job.expires_at is null and job.chain_id is null and job.`key` is null and job.limits is null"
    " and job.tags is null and job.target is null and job.ordered is null and job.unfit is null"
    " and job.deadline_at is null and job.parent_id is null"
)
_READY_COLUMNS = ", ".join(
    [
        "job.id, job.type, job.queue, job.payload, job.max_attempts, job.priority, <ms:job.run_at>",
        f"<ms:job.created_at>, job.timeout, job.retry, job.trace_context, {_IS_PLAIN}, job.attempt + 1, job.lease + 1",
        "job.lost, job.`key`, job.tags, job.chain_id, job.chain_index, <ms:job.expires_at>, job.limits, job.target",
        "job.turn, job.fair, job.ordered, job.unfit, <ms:job.deadline_at>, job.parent_id",
    ]
)
_NEXT_DUE = "(select <ms:run_at> from <job> <indexed:job_due> where status = <scheduled> order by run_at limit 1)"
_NEXT_EXPIRY = f"""(select min(at) from (
        select <ms:min(expires_at)> as at from <ready> where expires_at is not null
        union all
        select <ms:min(expires_at)> from <job> <indexed:job_expiry> where {EXPIRES_OUTSIDE}
        union all
        (select <ms:deadline_at> from <job> as job <indexed:job_deadline> where {HAS_DEADLINE} and {NO_CLAIM}
         order by deadline_at limit 1)) as expiries)"""
_NEXT_WAKE = """(select min(at) from (
        select <ms:min(opens_at)> as at from <opening>
        union all
        select <ms:min(next_run_at)> from <schedule> where paused = 0 and next_run_at is not null) as wakes)"""
_ANY_UNSURE = "(exists (select 1 from <edge> where unsure <> 0) or exists (select 1 from <parent_check>))"

# A row for each type of a queue. It has an empty type where a queue begins, and none where it ends. Behind the last
# queue comes the first. If the worker has a list of queues, only these are searched.
_NAME = f"varchar(400) character set utf8mb4) collate {COLLATION}"
_FOUND = f"""
    with recursive found (queue, type, number) as (
      select cast(coalesce((select min(queue) from <ready> where queue > {{after}}),
                           (select min(queue) from <ready> where queue <= {{after}})) as {_NAME},
             cast('' as {_NAME}, 1 from (select 1) as once where {{own}} is null
      union all
      select own.item, '', 1 from json_table({{own}}, '$[*]' columns (item varchar(200) path '$')) as own
      union all
      select
        case when type is not null then queue when {{own}} is null then coalesce(
          case when found.queue > {{after}}
               then (select min(queue) from <ready> as ready where ready.queue > found.queue)
               else (select min(queue) from <ready> as ready
                     where ready.queue > found.queue and ready.queue <= {{after}}) end,
          case when found.queue > {{after}} then (select min(queue) from <ready> where queue <= {{after}}) end) end,
        case when type is null then ''
             else (select min(type) from <ready> as ready where ready.queue = found.queue and ready.type > found.type)
        end,
        number + (type is null)
      from found where queue is not null and number <= {{most}}
    )
    select (select coalesce(json_arrayagg(json_array(queue, type, null)), '[]') from found
            where type <> '' and queue is not null)"""
_FOUND = _FOUND.replace("varchar(400) character set utf8mb4)", "char(400) character set utf8mb4)")


def _find_work(found: str, registered: str) -> str:
    return f"""
    {found}, 0.0, <ms:<now>>, {_NEXT_DUE}, {_NEXT_EXPIRY}, exists ({registered}), {_NEXT_WAKE},
      (select coalesce(json_arrayagg(json_array(kind, name)), '[]') from <pause>),
      exists (select 1 from <edge> where state = 'open'), {_ANY_UNSURE}, exists (select 1 from <slot>),
      exists (select 1 from <waiter>), false"""


_NEXT_QUEUES = _FOUND.format(after="$3", most="$4", own="$5")
_REGISTERED = "select 1 from <worker> where name = $2"
find_queues = _FOUND.format(after="$1", most="$2", own="$3")
find_work = _find_work(_NEXT_QUEUES, _REGISTERED)
# the first statement waits for a transaction that is about to declare this worker lost; the second sees whether it did
_HELD = "do (select 1 from <worker> where name = $2 lock in share mode)"
find_work_and_lock = (_HELD, find_work)
find_other_work_and_lock = (
    _HELD,
    _find_work("select $3", _REGISTERED).replace(
        "select $3",
        """
    select (select coalesce(json_arrayagg(json_array(known.queue, known.type, null)), '[]') from json_table(
      $3, '$[*]' columns (queue varchar(200) path '$[0]', type varchar(400) path '$[1]')) as known)""",
    ),
)
peek = f"""
    select <ms:<now>>, exists (select 1 from <ready>), {_NEXT_DUE}, {_NEXT_EXPIRY}, {_NEXT_WAKE}, {_ANY_UNSURE}"""


def ready_jobs(types: int) -> str:
    """Return the text for the first jobs of some types of one queue, without a lock."""
    arms = " union all ".join(
        f"(select type, `rank`, turn, id, lease from <ready> where queue = $2 and type = ${4 + number}"
        " order by `rank`, turn, id limit $3)"
        for number in range(types)
    )
    return _known(f"select * from ({arms}) as arms order by `rank`, turn, id limit $3")


def _known(rows: str) -> str:
    """Return what is known about the jobs of some ready rows. Only the ready rows are locked."""
    return f"""
    select {_READY_COLUMNS} from ({rows}) as first straight_join <job> as job on job.id = first.id
    where job.lease = first.lease and job.status = <pending> and job.held is null
      and (job.expires_at is null or job.expires_at > <now> or job.attempt > 0)"""


ready_of_type = _known("""
      select id, lease from <ready> where queue = $2 and type = $4 and (`rank`, turn, id) > ($5, $6, $7)
      order by queue, type, `rank`, turn, id limit $3 for update skip locked""")

_ROWS = given("queue text, type text, rank bigint, turn bigint, id bigint", 2)
_IS_ROW = """ready.queue = given.queue and ready.type = given.type and ready.`rank` = given.`rank`
      and ready.turn = given.turn and ready.id = given.id"""
# A worker that was declared lost before the round had its lock claims nothing.
claim = (
    f"""
    insert into <claim> (job_id, lease, holder, worker, attempt, claimed_at, started_at, lease_ms, lease_until)
    select ready.id, ready.lease + 1, $3, $4, ready.attempt + 1, <now>,
           case when (ready.id in $5) = ($8 = 1) then <now> end, $6, <now> + <interval:6>
    from {_ROWS} straight_join <ready> as ready on {_IS_ROW}
    where $6 is not null or exists (select 1 from <worker> where name = $4)
    order by ready.id
    on duplicate key update job_id = values(job_id)""",
    f"""
    delete ready from {_ROWS} straight_join <ready> as ready on {_IS_ROW}
    where $6 is not null or exists (select 1 from <worker> where name = $4)""",
    f"""
    select case when count(*) < $7 then coalesce(json_arrayagg(claim.job_id), '[]') end
    from {_ROWS} straight_join <claim> as claim on claim.job_id = given.id
    where claim.holder = $3 and claim.claimed_at = <now>""",
)
# waits for a claim that has not been committed yet
lock_ready_of = f"""
    select 1 from <job> as job straight_join <ready> as ready on {OF_READY}
    where job.id in $1 and job.status = <pending> and job.held is null for update"""
lock_ready = "select count(*) from (select id from <ready> for update) as locked"
_IS_FENCE = "claim.job_id = given.job_id and claim.lease = given.lease and claim.holder = given.holder"
_MARKS = given(Mark, 3, "$.*")
_MARKED, _FREE = noted("select job_id from <claim> where job_id in $2 for update skip locked", "free")
mark = (
    _MARKED,
    f"""
    update {_FREE} straight_join {_MARKS} on given.job_id = free.job_id straight_join <claim> as claim on {_IS_FENCE}
    set claim.started_at = case when given.started_age_ms is null then claim.started_at
          else greatest(claim.claimed_at, <now> - <span:given.started_age_ms>) end,
      claim.progress = coalesce(given.progress, claim.progress),
      claim.progress_message = case when given.progress is null then claim.progress_message else given.message end,
      claim.heartbeat_at = case when given.progress is null then claim.heartbeat_at
          else <now> - <span:given.age_ms> end
    where not (given.replays <> 0 and exists (select 1 from <step> as step where step.job_id = claim.job_id))""",
)
is_consumed = """
    select exists (select 1 from <claim> as claim join <job> as job on job.id = claim.job_id
                   where claim.lease_until is not null and job.queue = $2 and job.type = $3)
        or exists (select 1 from <job> <indexed:job_aged> where status = <succeeded> and queue = $2 and type = $3
                   and finished_at >= <now> - <interval:4>)"""
_STALE, _STALE_ROWS = noted(
    """
    select `rank`, turn, id from (
      select * from <ready> where queue = $1 and type = $2 order by `rank`, turn, id limit $3 for update skip locked
    ) as ready where not exists (
      select 1 from <job> as job where job.id = ready.id and job.lease = ready.lease and job.status = <pending>
        and job.held is null and not exists (select 1 from <claim> as claim where claim.job_id = job.id))"""
)
drop_stale = (
    _STALE,
    f"select id from {_STALE_ROWS}",
    f"""
    delete ready from {_STALE_ROWS} straight_join <ready> as ready
      on ready.queue = $1 and ready.type = $2 and ready.`rank` = chosen.`rank` and ready.turn = chosen.turn
      and ready.id = chosen.id""",
)
renew = (
    "select cancel from <claim> where job_id = $2 and lease = $3 and holder = $4 for update",
    """
    update <claim> set heartbeat_at = <now>, worker = coalesce($6, worker),
      lease_until = case when lease_until is not null or $6 is not null
                         then <now> + <span:coalesce($5, lease_ms)> end, lease_ms = coalesce($5, lease_ms)
    where job_id = $2 and lease = $3 and holder = $4""",
)
