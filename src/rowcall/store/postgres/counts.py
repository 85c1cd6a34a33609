"""Texts about counts, history and retention."""

from __future__ import annotations

from rowcall.store.queries.counts import LAST_SEEN, MOST_ATTEMPTS_COUNTED, RUNNING_ROWS

_SINCE = "greatest(run_at, created_at)"
_WAITING = "<job> where status = <scheduled> or status = <blocked>"
# Statuses, since when the first waits, rows, groups and the rest of the order: that of the indexes that hold every
# column that is counted.
_SOURCES = (
    ("<pending>", "since", "<ready>", "queue, type", ", rank, turn, id"),
    ("<pending>", _SINCE, "<job> where status = <pending> and held is not null", "queue, type", ", id"),
    ("status", f"case when status = <scheduled> then {_SINCE} end", _WAITING, "status, queue, type", ", id"),
    ("<running>", "null::timestamptz", RUNNING_ROWS, "queue, type", ""),
)
_UNFINISHED = [
    (status, groups, f"(select {groups}, {since} as since, attempt from {rows} order by {groups}{rest}) as counted")
    for status, since, rows, groups, rest in _SOURCES
]
_FINISHED = "finished_at is not null"
_OF_GROUP = f"{_FINISHED} and status = $1::text and queue = $2::text and type = $3::text"
_FAILED = "<job> where status = <failed> and coalesce(error_code, '') = given.code order by finished_at"


_ATTEMPTS = " union all ".join(
    f"select type, attempt, count(*) as jobs from {source} group by type, attempt" for *_, source in _UNFINISHED
)

unfinished = " union all ".join(
    f"select {status}::text, queue::text, type::text, count(*), <ms_or_null:min(since)> from {source} group by {groups}"
    for status, groups, source in _UNFINISHED
)
unfinished_attempts = f"""
    select type::text, least(attempt, {MOST_ATTEMPTS_COUNTED}), sum(jobs) from (
      {_ATTEMPTS}
    ) as counted
    group by 1, 2"""
running = f"""
    select <job_columns>, worker.host, <ms_or_null:worker.heartbeat_at>, <ms_or_null:{LAST_SEEN}>
    from <claim> as claim cross join lateral (select * from <prefix>jobs where id = claim.job_id offset 0) as job
      left join <worker> as worker on worker.name = job.worker
    order by {LAST_SEEN}, job.id limit <int:1>"""
error_spans = f"""
    select given.code, (select <ms_or_null:finished_at> from {_FAILED} limit 1),
           (select <ms_or_null:finished_at> from {_FAILED} desc limit 1),
           (select error_detail from {_FAILED} desc, id desc limit 1),
           (select type::text from {_FAILED} desc, id desc limit 1)
    from jsonb_array_elements_text($1::text::jsonb) as given (code)"""

remove_tallies = """
    with taken as (
      delete from <tally> where id = any (array(
        select id from <tally> where at < <time:1> order by id limit $2::int for update skip locked))
      returning *)
    select id, <ms:at>, queue, type, outcome, status, error_code, attempt, jobs, waits, runs from taken order by id"""
drop_empty_totals = """
    delete from <total> where jobs = 0 and ctid = any (array(
      select ctid from <total> where jobs = 0 for update skip locked))"""


def _groups_of(columns: str, proof: str) -> str:
    """Return SQL that hops from one group of an index to the next, however many jobs are in each."""
    names = columns.split(", ")
    first = f"select {columns} from <job> where {proof}"
    return f"""
    with recursive found ({columns}) as (
      ({first} order by {columns} limit 1)
      union all
      select {", ".join(f"next.{name}" for name in names)} from found cross join lateral (
        {first} and ({columns}) > ({", ".join(f"found.{name}" for name in names)}) order by {columns} limit 1) as next
    )
    select {", ".join(f"{name}::text" for name in names)} from found where"""


finished_groups = f"{_groups_of('status, queue, type', _FINISHED)} status in <finished>"
oldest_finished = f"""
    select one.status, one.queue, one.type, (
      select <ms_or_null:finished_at> from <job> as job
      where {_FINISHED} and job.status = one.status and job.queue = one.queue and job.type = one.type
      order by status, queue, type, finished_at limit 1)
    from ({finished_groups}) as one"""
waiting_groups = (
    f"{_groups_of('status, error_code, type', 'error_code is not null')} status in (<pending>, <scheduled>)"
)
# `= any (array[…])` is not a constant to the planner, so only this index has the order
waiting_errors = """
    select count(*), coalesce(max(id), 0) from (
      select id from <job> as job
      where status = any (array[$1::text]) and error_code = $2::text and type = $3::text
        and not exists (select from <claim> as claim where claim.job_id = job.id offset 0)
      order by status desc, error_code desc, type desc, id desc limit $4::int) as newest"""
# Other jobs may still read its result, and a chain is kept as long as its youngest step. Each row is asked for by
# itself, as "the first of them is null": the planner may turn a join round and read the whole table.
prune = f"""
    delete from <job> where id = any (array(
      select id from <job> as job where {_OF_GROUP} and finished_at < (select <time:4>)
        and (select 1 from <edge> as edge cross join lateral (
               select finished_at from <job> where id = edge.job_id offset 0) as waiting
             where edge.blocker_id = any (array[job.id, job.chain_id]) and waiting.finished_at is null
             limit 1) is null
        and (parent_id is null or (
             select 1 from <job> as parent where parent.id = job.parent_id and parent.finished_at is null
             limit 1) is null)
        and (chain_id is null or (
             select 1 from <job> as step where step.chain_id = job.chain_id
               and (step.finished_at is null or step.finished_at >= (select <time:4>)) limit 1) is null)
      order by status, queue, type, finished_at limit $5::int for update skip locked))"""
# the count does not need the order, but only one index has it
prunable = f"""
    select (select count(*) from (
              select from <job> where {_OF_GROUP} and finished_at < (select <time:4>)
              order by finished_at limit $5::bigint) as prunable),
           (select <ms_or_null:finished_at> from <job> where {_OF_GROUP}
            order by status, queue, type, finished_at limit 1)"""
size_bytes = """
    select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class
    where oid in (to_regclass('<job>'), to_regclass('<ready>'), to_regclass('<attempt>'), to_regclass('<event>'),
                  to_regclass('<job_tag>'), to_regclass('<claim>'),
                  to_regclass('<tally>'), to_regclass('<total>'), to_regclass('<history>'),
                  to_regclass('<worker>'), to_regclass('<setting>'))"""
# transactions of other users are seen only by roles that may see them
health = """
    select coalesce((select n_dead_tup from pg_stat_all_tables where relid = to_regclass('<job>')), 0),
           coalesce(date_part('epoch', clock_timestamp() - oldest.xact_start), 0), coalesce(oldest.pid, 0)
    from (select 1) as always left join lateral (
      select pid, xact_start from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
        and (backend_xmin is not null or backend_xid is not null) and backend_type <> 'autovacuum worker'
      order by xact_start limit 1) as oldest on true"""
lock_tallies = "lock table <tally> in share row exclusive mode"

upkeep_state = """
    select <ms:(select <now>)>, exists (select from <tally>) or exists (select from <batch_tally>),
           coalesce((select jsonb_object_agg(name, value) from <setting>), '{}'::jsonb)::text"""
