"""Texts about counts, history and retention."""

from __future__ import annotations

from rowcall.store.mysql.words import given, in_two, noted
from rowcall.store.queries.counts import LAST_SEEN, MOST_ATTEMPTS_COUNTED, RUNNING_ROWS

_SINCE = "greatest(run_at, created_at)"
_SOURCES = (
    ("pending", "since", "<ready>"),
    ("pending", _SINCE, "<job> <indexed:job_held> where status = <pending> and held is not null"),
    ("scheduled", _SINCE, "<job> where status = <scheduled>"),
    ("blocked", "null", "<job> where status = <blocked>"),
    ("running", "null", RUNNING_ROWS),
)
_ATTEMPTS = " union all ".join(
    f"select type, attempt, count(*) as jobs from {rows} group by type, attempt" for _, _, rows in _SOURCES
)
_FINISHED = "finished_at is not null"
_OF_GROUP = f"{_FINISHED} and status = $1 and queue = $2 and type = $3"
_FAILED = "<job> <indexed:job_failed> where status = <failed> and coalesce(error_code, '') = given.item"
_NEWEST_FAILED = f"{_FAILED} order by finished_at desc, id desc limit 1"

unfinished = " union all ".join(
    f"select '{status}', queue, type, count(*), {'null' if since == 'null' else f'<ms:min({since})>'}"
    f" from {rows} group by queue, type"
    for status, since, rows in _SOURCES
)
unfinished_attempts = f"""
    select type, least(attempt, {MOST_ATTEMPTS_COUNTED}), sum(jobs) from ({_ATTEMPTS}) as counted group by 1, 2"""
running = f"""
    select <job_columns>, worker.host, <ms:worker.heartbeat_at>, <ms:{LAST_SEEN}>
    from <claim> as claim straight_join <prefix>jobs as job on job.id = claim.job_id
      left join <worker> as worker on worker.name = job.worker
    order by {LAST_SEEN}, job.id limit $1"""
error_spans = f"""
    select given.item, (select <ms:min(finished_at)> from {_FAILED}), (select <ms:max(finished_at)> from {_FAILED}),
           (select error_detail from {_NEWEST_FAILED}), (select type from {_NEWEST_FAILED})
    from <texts:1>"""
_NOTE_OLD, _OLD = noted("select id from <tally> where at < <time:1> order by id limit $2 for update skip locked")
remove_tallies = (
    _NOTE_OLD,
    f"""
    select tally.id, <ms:at>, queue, type, outcome, status, error_code, attempt, jobs, waits, runs
    from {_OLD} straight_join <tally> as tally on tally.id = chosen.id order by tally.id""",
    f"delete tally from {_OLD} straight_join <tally> as tally on tally.id = chosen.id",
)
_NOTE_SHORTER, _SHORTER = noted("""
      select id from <history> where at >= <time:1> and at < <time:2> and span_ms < $3
      order by queue, type, id limit $4 for update skip locked""")
remove_shorter = (
    _NOTE_SHORTER,
    f"""
    select <ms:at>, span_ms, queue, type, outcome, error_code, jobs, waits, runs
    from {_SHORTER} straight_join <history> as past on past.id = chosen.id order by past.id""",
    f"delete past from {_SHORTER} straight_join <history> as past on past.id = chosen.id",
)
lock_tallies = "select count(*) from (select id from <tally> for update) as locked"
drop_empty_totals = "delete from <total> where jobs = 0"
add_totals = f"""
    insert into <total> (status, queue, type, error_code, attempt, jobs)
    select * from {given("status text, queue text, type text, code text, attempt int, jobs bigint", 1)}
    order by 1, 2, 3, 4, 5
    on duplicate key update jobs = <total>.jobs + values(jobs)"""
finished_groups = f"select distinct status, queue, type from <job> where {_FINISHED} and status in <finished>"
oldest_finished = f"""
    select status, queue, type, <ms:min(finished_at)> from <job> where {_FINISHED} and status in <finished>
    group by status, queue, type"""
waiting_groups = """
    select distinct status, error_code, type from <job>
    where error_code is not null and status in (<pending>, <scheduled>)"""
waiting_errors = """
    select count(*), coalesce(max(id), 0) from (
      select id from <job> as job <indexed:job_error> where status = $1 and error_code = $2 and type = $3
        and not exists (select 1 from <claim> as claim where claim.job_id = job.id)
      order by id desc limit $4) as newest"""
# Other jobs may still read its result, and a chain is kept as long as its youngest step. The trigger deletes edges, so
# the statement that deletes jobs cannot read them.
prune = in_two(f"""
    delete whole from <job> as whole join (
      select id from <job> as job <indexed:job_aged> where {_OF_GROUP} and finished_at < <time:4>
        and not exists (select 1 from <edge> as edge straight_join <job> as waiting on waiting.id = edge.job_id
                        where edge.blocker_id in (job.id, job.chain_id) and waiting.finished_at is null)
        and (parent_id is null or not exists (
          select 1 from <job> as parent where parent.id = job.parent_id and parent.finished_at is null))
        and (chain_id is null or not exists (
          select 1 from <job> as step where step.chain_id = job.chain_id
            and (step.finished_at is null or step.finished_at >= <time:4>)))
      order by finished_at limit $5 for update skip locked) as chosen on chosen.id = whole.id""")
prunable = f"""
    select (select count(*) from (
              select 1 from <job> <indexed:job_aged> where {_OF_GROUP} and finished_at < <time:4>
              limit $5) as prunable),
           (select <ms:min(finished_at)> from <job> <indexed:job_aged> where {_OF_GROUP})"""
size_bytes = """
    select coalesce(sum(data_length + index_length), 0) from information_schema.tables
    where table_schema = database() and table_name like '<prefix>%'"""
_PARTS = "count(case when created_at {} then 1 end)"
arrivals = f"""
    select queue, type, {_PARTS.format("between <time:2> and <time:3>")}, {_PARTS.format("< <time:2>")},
           <ms:min(case when created_at between <time:2> and <time:3> then created_at end)>
    from <job> where id >= $1 group by queue, type"""
once_every = (
    """
    insert into <setting> (name, value) values ($2, cast(<ms:<now>> as char))
    on duplicate key update value = case
      when cast(value as signed) <= cast(values(value) as signed) - $3
        or cast(value as signed) > cast(values(value) as signed) then values(value) else value end""",
    "select $2 where row_count() > 0",
)
upkeep_state = """
    select <ms:<now>>, exists (select 1 from <tally>) or exists (select 1 from <batch_tally>),
           coalesce((select json_objectagg(name, value) from <setting>), '{}')"""
