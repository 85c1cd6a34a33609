"""Statements about counts, history and retention."""

from __future__ import annotations

from rowcall.store.postgres.sql import JOB_COLUMNS
from rowcall.store.postgres.words import MOST_SUMMED, milliseconds_of, milliseconds_or_null, render, time_of
from rowcall.store.records import MINUTE_MS, MOST_ATTEMPTS_COUNTED
from rowcall.store.sources import IS_FINISHED

# the orders are those of the indexes that hold what is asked of each
_SOURCES = (
    ("pending", "status = <pending> and held is null", "queue, type, priority desc, id"),
    ("pending", "status = <pending> and held is not null", "queue, type, id"),
    ("scheduled", "status = <scheduled>", "queue, type, id"),
    ("blocked", "status = <blocked>", "queue, type, id"),
    ("running", "status = <running>", "worker, id"),
)
_SINCE = dict.fromkeys(("pending", "scheduled"), "greatest(run_at, created_at)")
_UNFINISHED = [
    (
        status,
        f"(select queue, type, {_SINCE.get(status, 'null::timestamptz')} as since, attempt"
        f" from <job> where {proof} order by {order}) as {status}",
    )
    for status, proof, order in _SOURCES
]
_ATTEMPTS_OF_UNFINISHED = " union all ".join(
    f"select type, attempt, count(*) as jobs from {source} group by type, attempt" for _, source in _UNFINISHED
)
_FINISHED = "finished_at is not null"
_OF_GROUP = f"{_FINISHED} and status = $1::text and queue = $2::text and type = $3::text"
_ARRIVED = f"created_at between {time_of('$2')} and {time_of('$3')}"
_LAST_SIGN = "coalesce(job.heartbeat_at, job.started_at, job.claimed_at, job.created_at)"
_OF_CODE = "status = <failed> and coalesce(error_code, '') = given.code"


def _items(*types: str) -> str:
    """The fields of each array in a JSON array of them."""
    return ", ".join(f"(item ->> {place})::{kind}" for place, kind in enumerate(types))


def _forget(condition: str) -> str:
    return f"""
        with gone as (
          delete from <history> where id = any (array(
            select id from <history> where {condition.format(time_of("$1"))}
            order by at limit $2::int for update skip locked))
          returning 1)
        select count(*) from gone"""


# Others may still ask for its result, and a chain is kept as long as its youngest step. Asked of each row by itself, as
# "the first of them is none": whatever is a join, the planner may turn round and read all of the table.
_NOT_NEEDED = f"""
            and (select 1 from <edge> as edge cross join lateral (
                   select finished_at from <job> where id = edge.job_id offset 0) as waiting
                 where edge.blocker_id = any (array[job.id, job.chain_id]) and waiting.finished_at is null
                 limit 1) is null
            and (chain_id is null or (
                 select 1 from <job> as step where step.chain_id = job.chain_id
                   and (step.finished_at is null or step.finished_at >= (select {time_of("$4")})) limit 1) is null)"""


class RecordsSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    now = f"select {milliseconds_of('(select <now>)')}"
    tally = f"""
        insert into <tally> (at, queue, type, outcome, status, error_code, attempt, jobs, waits, runs)
        select moment.now, {_items(*["text"] * 5, "int", "bigint", "text", "text")}
        from (select <now> as now) as moment, jsonb_array_elements($2::text::jsonb) as item"""
    tally_on_loan = f"{tally} returning id"
    totals = """
        select status, queue, type, error_code, attempt, sum(jobs)::bigint from (
          select status, queue, type, error_code, attempt, jobs from <total>
          union all
          select status, queue, type, error_code, attempt, jobs from <tally> where status is not null) as counted
        group by 1, 2, 3, 4, 5 having sum(jobs) <> 0"""
    waiting = " union all ".join(
        f"select '{status}', queue::text, type::text, count(*), {milliseconds_or_null('min(since)')}"
        f" from {source} group by queue, type"
        for status, source in _UNFINISHED
    )
    attempts_of_waiting = f"""
        select type::text, least(attempt, {MOST_ATTEMPTS_COUNTED}), sum(jobs)::bigint from (
          {_ATTEMPTS_OF_UNFINISHED}) as counted
        group by 1, 2"""
    newest_id = "select coalesce((select id from <job> order by id desc limit 1), 0)"
    arrivals = f"""
        select queue::text, type::text, count(*) filter (where {_ARRIVED}),
               count(*) filter (where created_at < {time_of("$2")}),
               {milliseconds_of(f"min(created_at) filter (where {_ARRIVED})")}
        from <job> where id >= $1::bigint group by queue, type"""
    past = f"""
        select {milliseconds_of("at")}, span_ms, queue, type, outcome, jobs, waits, runs from <history>
        where at between (select {time_of("$1")}) and (select {time_of("$2")})
        union all
        select {milliseconds_of("at")}, {MINUTE_MS}, queue, type, outcome, jobs, waits, runs from <tally>
        where outcome is not null and at between (select {time_of("$1")}) and (select {time_of("$2")})"""
    error_ends = f"""
        select given.code,
          (select {milliseconds_or_null("finished_at")} from <job> where {_OF_CODE} order by finished_at limit 1),
          (select {milliseconds_or_null("finished_at")} from <job> where {_OF_CODE} order by finished_at desc limit 1),
          (select error_detail from <job> where {_OF_CODE} order by finished_at desc, id desc limit 1)
        from jsonb_array_elements_text($1::text::jsonb) as given (code)"""
    running = f"""
        select {JOB_COLUMNS}, worker.host, {milliseconds_or_null("worker.beat_at")},
               {milliseconds_or_null(_LAST_SIGN)}
        from <job> as job left join <worker> as worker on worker.name = job.worker
        where job.status = <running> order by {_LAST_SIGN}, job.id limit $1::int"""

    take_tallies = f"""
        with taken as (
          delete from <tally> where id = any (array(
            select id from <tally> where at < {time_of("$1")} order by id limit $2::int for update skip locked))
          returning *)
        select id, {milliseconds_of("at")}, queue, type, outcome, status, error_code, attempt, jobs, waits, runs
        from taken order by id"""
    # in one order, so that no two wait for each other
    add_totals = f"""
        insert into <total> as total (status, queue, type, error_code, attempt, jobs)
        select {_items("text", "text", "text", "text", "int", "bigint")}
        from jsonb_array_elements($1::text::jsonb) as item order by 1, 2, 3, 4, 5
        on conflict (status, queue, type, error_code, attempt) do update
          set jobs = greatest(-{MOST_SUMMED}, least({MOST_SUMMED}, total.jobs + excluded.jobs))"""
    drop_empty_totals = """
        delete from <total> where jobs = 0 and ctid = any (array(
          select ctid from <total> where jobs = 0 for update skip locked))"""
    add_past = """
        insert into <history> (at, span_ms, queue, type, outcome, jobs, waits, runs)
        select to_timestamp((item ->> 0)::bigint / 1000.0), (item ->> 1)::bigint, item ->> 2, item ->> 3, item ->> 4,
               (item ->> 5)::bigint, item ->> 6, item ->> 7
        from jsonb_array_elements($1::text::jsonb) as item"""
    take_minutes = f"""
        with taken as (
          delete from <history> where id = any (array(
            select id from <history> where span_ms = {MINUTE_MS} and at < {time_of("$1")}
            order by at limit $2::int for update skip locked))
          returning *)
        select {milliseconds_of("at")}, span_ms, queue, type, outcome, jobs, waits, runs from taken"""
    forget_past = _forget("at < {}")
    forget_future = _forget("at > {}")

    # it hops from one group to the next, however many jobs are in each
    finished_groups = f"""
        with recursive found (status, queue, type) as (
          (select status, queue, type from <job> where {_FINISHED} order by status, queue, type limit 1)
          union all
          select next.status, next.queue, next.type from found cross join lateral (
            select status, queue, type from <job>
            where {_FINISHED} and (status, queue, type) > (found.status, found.queue, found.type)
            order by status, queue, type limit 1) as next
        )
        select status::text, queue::text, type::text from found where {IS_FINISHED}"""
    # what a trigger counts of them is counted of these very rows
    prune = f"""
        with gone as (
          delete from <job> where id = any (array(
            select id from <job> as job where {_OF_GROUP} and finished_at < (select {time_of("$4")}) {_NOT_NEEDED}
            order by status, queue, type, finished_at limit $5::int for update skip locked))
          returning 1)
        select count(*) from gone"""
    # an order that is of no use to the count, but only one index has it
    doomed = f"""
        select (select count(*) from (
                  select from <job> where {_OF_GROUP} and finished_at < (select {time_of("$4")})
                  order by finished_at offset 0) as doomed),
               (select {milliseconds_or_null("finished_at")} from <job> where {_OF_GROUP}
                order by status, queue, type, finished_at limit 1)"""
    size_bytes = """
        select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
        where oid in (to_regclass('<job>'), to_regclass('<attempt>'), to_regclass('<event>'), to_regclass('<job_tag>'),
                      to_regclass('<tally>'), to_regclass('<total>'), to_regclass('<history>'),
                      to_regclass('<worker>'), to_regclass('<setting>'))"""

    # others' transactions are seen by those who may see them
    health = """
        select coalesce((select n_dead_tup from pg_stat_all_tables where relid = to_regclass('<job>')), 0),
               coalesce(date_part('epoch', clock_timestamp() - oldest.xact_start), 0), coalesce(oldest.pid, 0)
        from (select 1) as always left join lateral (
          select pid, xact_start from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null
            and (backend_xmin is not null or backend_xid is not null) and backend_type <> 'autovacuum worker'
          order by xact_start limit 1) as oldest on true"""

    # whoever has tallied and not committed is waited for; whoever has settled and not tallied yet waits for us
    lock_tallies = "lock table <tally> in share row exclusive mode"
    finish_unfinished = f"update <job> set finished_at = created_at where {IS_FINISHED} and finished_at is null"
    forget_totals = "delete from <total>"
    forget_tallies = "update <tally> set status = null where status is not null"
    count_all = f"""
        insert into <total> (status, queue, type, error_code, attempt, jobs)
        select status, queue, type, coalesce(error_code, ''), least(attempt, {MOST_ATTEMPTS_COUNTED}), count(*)
        from <job> where finished_at is not null and status in <finished> group by 1, 2, 3, 4, 5"""

    settings = "select name, value from <setting>"
    put_setting = """
        insert into <setting> (name, value) values ($1::text, $2::text)
        on conflict (name) do update set value = excluded.value"""
    drop_setting = "delete from <setting> where name = $1::text"
    chores = f"""
        select {milliseconds_of("(select <now>)")}, exists (select from <tally>),
               coalesce((select jsonb_object_agg(name, value) from <setting>), '{{}}'::jsonb)::text"""
    take_duty = f"""
        insert into <setting> as setting (name, value)
        select $2::text, now from (select {milliseconds_of("(select <now>)")}::text as now) as moment
        on conflict (name) do update set value = excluded.value
        where setting.value::bigint <= excluded.value::bigint - $3::bigint
           or setting.value::bigint > excluded.value::bigint
        returning name"""


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(RecordsSql).items() if isinstance(text, str) and not name.startswith("_")}
