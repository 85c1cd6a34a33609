"""Statements about counts, history and retention. Those that give many rows are run by people, not by every round."""

from __future__ import annotations

from rowcall.store.records import MINUTE_MS, MOST_ATTEMPTS_COUNTED
from rowcall.store.sources import FINISHED_SOURCE, IS_FINISHED
from rowcall.store.sqlite.groups import groups_of
from rowcall.store.sqlite.schema import SUM_OF_JOBS
from rowcall.store.sqlite.sql import JOB_COLUMNS
from rowcall.store.sqlite.words import render

# what is asked of those that wait is all in these indexes
_SOURCES = {
    "ready": ("pending", "status = <pending> and held is null"),
    "held": ("pending", "status = <pending> and held is not null"),
    "scheduled": ("scheduled", "status = <scheduled>"),
    "blocked": ("blocked", "status = <blocked>"),
    "owned": ("running", "status = <running>"),
}
_UNFINISHED = [
    (status, f"<job> indexed by <prefix>job_{index} where {proof}") for index, (status, proof) in _SOURCES.items()
]
_SINCE = dict.fromkeys(("pending", "scheduled"), "min(max(run_at, created_at))")
_FINISHED = "<job> indexed by <prefix>job_aged where finished_at is not null"
_OF_GROUP = "status = ?1 and queue = ?2 and type = ?3"
_LAST_SIGN = "coalesce(job.heartbeat_at, job.started_at, job.claimed_at, job.created_at)"
_SHOWN = ", ".join(f"job.{column.strip()}" for column in JOB_COLUMNS.split(","))
_ATTEMPTS_OF_UNFINISHED = " union all ".join(
    f"select type, attempt, count(*) as jobs from {source} group by 1, 2" for _, source in _UNFINISHED
)
_ERROR_CODE = "coalesce(error_code, '')"

# others may still ask for its result, and a chain is kept as long as its youngest step
_NOT_NEEDED = """
            and not exists (select 1 from <edge> as edge cross join <job> as waiting on waiting.id = edge.job_id
                            where edge.blocker_id in (<job>.id, <job>.chain_id) and waiting.finished_at is null)
            and (chain_id is null or not exists (
              select 1 from <job> as step where step.chain_id = <job>.chain_id
                and (step.finished_at is null or step.finished_at >= ?4)))"""


class RecordsSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    now = "select <now>"
    tally = """
        insert into <tally> (at, queue, type, outcome, status, error_code, attempt, jobs, waits, runs)
        select <now>, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
               json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
               json_extract(value, '$[6]'), json_extract(value, '$[7]'), json_extract(value, '$[8]')
        from json_each(?2)"""
    tally_on_loan = f"{tally} where true returning id"
    totals = """
        select status, queue, type, error_code, attempt, sum(jobs) from (
          select status, queue, type, error_code, attempt, jobs from <total>
          union all
          select status, queue, type, error_code, attempt, jobs from <tally> where status is not null)
        group by 1, 2, 3, 4, 5 having sum(jobs) <> 0"""
    waiting = " union all ".join(
        f"select '{status}', queue, type, count(*), {_SINCE.get(status, 'null')} from {source} group by queue, type"
        for status, source in _UNFINISHED
    )
    attempts_of_waiting = f"""
        select type, min(attempt, {MOST_ATTEMPTS_COUNTED}), sum(jobs) from (
          {_ATTEMPTS_OF_UNFINISHED})
        group by 1, 2"""
    newest_id = "select coalesce(max(id), 0) from <job>"
    arrivals = """
        select queue, type, sum(created_at between ?2 and ?3), sum(created_at < ?2),
               min(case when created_at between ?2 and ?3 then created_at end)
        from <job> where id >= ?1 group by queue, type"""
    past = f"""
        select at, span_ms, queue, type, outcome, jobs, waits, runs from <history> where at between ?1 and ?2
        union all
        select at, {MINUTE_MS}, queue, type, outcome, jobs, waits, runs from <tally>
        where outcome is not null and at between ?1 and ?2"""
    error_ends = f"""
        select given.value,
          (select min(finished_at) from <job> indexed by <prefix>job_failed
           where status = <failed> and {_ERROR_CODE} = given.value),
          (select max(finished_at) from <job> indexed by <prefix>job_failed
           where status = <failed> and {_ERROR_CODE} = given.value),
          (select error_detail from <job> indexed by <prefix>job_failed
           where status = <failed> and {_ERROR_CODE} = given.value order by finished_at desc, id desc limit 1)
        from json_each(?1) as given"""

    running = f"""
        select {_SHOWN}, worker.host, worker.beat_at, {_LAST_SIGN}
        from <job> as job indexed by <prefix>job_owned left join <worker> as worker on worker.name = job.worker
        where job.status = <running> order by {_LAST_SIGN}, job.id limit ?1"""

    oldest_tallies = """
        select id, at, queue, type, outcome, status, error_code, attempt, jobs, waits, runs from <tally>
        where at < ?1 order by id limit ?2"""
    drop_tallies = "delete from <tally> where id in (select value from json_each(?1))"
    add_totals = f"""
        insert into <total> (status, queue, type, error_code, attempt, jobs)
        select json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
               json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
        from json_each(?1) where true
        on conflict (status, queue, type, error_code, attempt) do update set jobs = {SUM_OF_JOBS}"""
    drop_empty_totals = "delete from <total> where jobs = 0"
    add_past = """
        insert into <history> (at, span_ms, queue, type, outcome, jobs, waits, runs)
        select json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
               json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
               json_extract(value, '$[6]'), json_extract(value, '$[7]')
        from json_each(?1)"""
    oldest_minutes = f"""
        select id, at, span_ms, queue, type, outcome, jobs, waits, runs from <history>
        where span_ms = {MINUTE_MS} and at < ?1 order by at limit ?2"""
    drop_minutes = "delete from <history> where id in (select value from json_each(?1))"
    forget_past = """
        delete from <history> where id in (select id from <history> where at < ?1 order by at limit ?2)"""
    forget_future = """
        delete from <history> where id in (select id from <history> where at > ?1 order by at limit ?2)"""

    finished_groups = f"{groups_of(FINISHED_SOURCE)} where {IS_FINISHED}"
    prune = f"""
        delete from <job> where id in (
          select id from {_FINISHED} and {_OF_GROUP} and finished_at < ?4 {_NOT_NEEDED}
          order by finished_at limit ?5)"""
    doomed = f"""
        select (select count(*) from {_FINISHED} and {_OF_GROUP} and finished_at < ?4),
               (select min(finished_at) from {_FINISHED} and {_OF_GROUP})"""
    size_bytes = "select page_count * page_size from pragma_page_count(), pragma_page_size()"

    # counting anew
    finish_unfinished = f"update <job> set finished_at = created_at where {IS_FINISHED} and finished_at is null"
    forget_totals = "delete from <total>"
    forget_tallies = "update <tally> set status = null where status is not null"
    count_all = f"""
        insert into <total> (status, queue, type, error_code, attempt, jobs)
        select status, queue, type, coalesce(cast(error_code as text), ''), min(attempt, {MOST_ATTEMPTS_COUNTED}),
               count(*)
        from <job> where finished_at is not null and status in <finished> group by 1, 2, 3, 4, 5"""

    settings = "select name, value from <setting>"
    put_setting = """
        insert into <setting> (name, value) values (?1, ?2) on conflict (name) do update set value = excluded.value"""
    drop_setting = "delete from <setting> where name = ?1"
    chores = """
        select <now>, exists (select 1 from <tally>), (select json_group_object(name, value) from <setting>)"""
    take_duty = """
        insert into <setting> (name, value) values (?2, <now>)
        on conflict (name) do update set value = excluded.value
        where cast(value as integer) <= <now> - ?3 or cast(value as integer) > <now>
        returning name"""


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(RecordsSql).items() if isinstance(text, str) and not name.startswith("_")}
