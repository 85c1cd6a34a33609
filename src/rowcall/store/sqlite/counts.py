"""Texts about counts, history and retention."""

from __future__ import annotations

from rowcall.store.jobs.pages import BY_ERROR, FINISHED_SOURCE
from rowcall.store.queries.counts import LAST_SEEN, MOST_ATTEMPTS_COUNTED, RUNNING_ROWS
from rowcall.store.sqlite.pages import groups_of

# these indexes hold every column that is counted
_SOURCES = {
    "pending": "job_held where status = <pending> and held is not null",
    "scheduled": "job_waiting where status = <scheduled>",
    "blocked": "job_waiting where status = <blocked>",
}
_UNFINISHED = [(status, f"<job> indexed by <prefix>{rows}") for status, rows in _SOURCES.items()]
_SINCE = dict.fromkeys(("pending", "scheduled"), "min(max(run_at, created_at))")
_READY = "select <pending>, queue, type, count(*), min(since) from <ready> group by queue, type"
_RUNNING = f"select <running>, queue, type, count(*), null from {RUNNING_ROWS} group by queue, type"
_FINISHED = "<job> indexed by <prefix>job_aged where finished_at is not null"
_OF_GROUP = "status = $1 and queue = $2 and type = $3"
_FAILED = "<job> indexed by <prefix>job_failed where status = <failed> and coalesce(error_code, '') = given.value"

_ATTEMPTS = " union all ".join(
    f"select type, attempt, count(*) as jobs from {source} group by 1, 2"
    for source in ("<ready>", RUNNING_ROWS, *(source for _, source in _UNFINISHED))
)

_OTHERS = (
    f"select '{status}', queue, type, count(*), {_SINCE.get(status, 'null')} from {source} group by queue, type"
    for status, source in _UNFINISHED
)
unfinished = " union all ".join([_READY, _RUNNING, *_OTHERS])
unfinished_attempts = f"""
    select type, min(attempt, {MOST_ATTEMPTS_COUNTED}), sum(jobs) from (
      {_ATTEMPTS})
    group by 1, 2"""
running = f"""
    select <job_columns>, worker.host, <ms_or_null:worker.heartbeat_at>, <ms_or_null:{LAST_SEEN}>
    from <claim> as claim cross join <prefix>jobs as job on job.id = claim.job_id
      left join <worker> as worker on worker.name = job.worker
    order by {LAST_SEEN}, job.id limit <int:1>"""
error_spans = f"""
    select given.value, (select min(finished_at) from {_FAILED}), (select max(finished_at) from {_FAILED}),
           (select error_detail from {_FAILED} order by finished_at desc, id desc limit 1),
           (select type from {_FAILED} order by finished_at desc, id desc limit 1)
    from json_each($1) as given"""

remove_tallies = """
    delete from <tally> where id in (select id from <tally> where at < $1 order by id limit $2)
    returning id, at, queue, type, outcome, status, error_code, attempt, jobs, waits, runs"""
drop_empty_totals = "delete from <total> where jobs = 0"

finished_groups = f"{groups_of(FINISHED_SOURCE)} where status in <finished>"
oldest_finished = f"""
    select one.status, one.queue, one.type, (
      select min(finished_at) from {_FINISHED}
        and <job>.status = one.status and <job>.queue = one.queue and <job>.type = one.type)
    from ({groups_of(FINISHED_SOURCE)} where status in <finished>) as one"""
waiting_groups = f"{groups_of(BY_ERROR)} where status in (<pending>, <scheduled>)"
waiting_errors = """
    select count(*), coalesce(max(id), 0) from (
      select id from <job> as job indexed by <prefix>job_error
      where status = $1 and error_code = $2 and type = $3
        and not exists (select 1 from <claim> where job_id = job.id) order by id desc limit $4)"""
# other jobs may still read its result, and a chain is kept as long as its youngest step
prune = f"""
    delete from <job> where id in (
      select id from {_FINISHED} and {_OF_GROUP} and finished_at < $4
        and not exists (select 1 from <edge> as edge cross join <job> as waiting on waiting.id = edge.job_id
                        where edge.blocker_id in (<job>.id, <job>.chain_id) and waiting.finished_at is null)
        and not exists (select 1 from <job> as parent where parent.id = <job>.parent_id and parent.finished_at is null)
        and (chain_id is null or not exists (
          select 1 from <job> as step where step.chain_id = <job>.chain_id
            and (step.finished_at is null or step.finished_at >= $4)))
      order by finished_at limit $5)"""
prunable = f"""
    select (select count(*) from (select 1 from {_FINISHED} and {_OF_GROUP} and finished_at < $4 limit $5)),
           (select min(finished_at) from {_FINISHED} and {_OF_GROUP})"""
size_bytes = "select page_count * page_size from pragma_page_count(), pragma_page_size()"

upkeep_state = """
    select <now>, exists (select 1 from <tally>) or exists (select 1 from <batch_tally>),
           (select json_group_object(name, value) from <setting>)"""
