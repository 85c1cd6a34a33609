"""Statements about what people do to jobs and queues."""

from __future__ import annotations

from rowcall.domain.lifecycle import (
    BLOCKER_CANCELLED_CODE,
    BLOCKER_FAILED_CODE,
    CHAIN_COMPLETED_CODE,
    EXPIRED_CODE,
    LOST_CODE,
)
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.store.postgres.sql import JOB_COLUMNS, NEXT_LEASE
from rowcall.store.postgres.words import MOST_COUNT, milliseconds_of, render, time_of

_OF_OTHERS = f"'{BLOCKER_FAILED_CODE}', '{BLOCKER_CANCELLED_CODE}', '{CHAIN_COMPLETED_CODE}', '{MISMATCH_CODE}'"
_UNFINISHED = "status in <unfinished>"
_REASON = """(select detail from <event> as event
           where event.job_id = job.id and event = 'CANCEL_REQUESTED' order by event.id desc limit 1)"""
_ASKED = f"job.id, job.lease, job.queue::text, job.type::text, job.attempt::int, {_REASON}"
_MOMENT = "round(date_part('epoch', job.finished_at) * 1000000)::bigint"


def _ids(parameter: str) -> str:
    """What `id` is any of, however few the planner thinks there are in the table."""
    return f"any (array(select value::bigint from jsonb_array_elements_text({parameter}::text::jsonb)))"


def _of_job(number: int) -> str:
    """A field of what was given for the row, as text."""
    return f"(select document from given) -> job.id::text ->> {number}"


_RERUN_AT = time_of(f"({_of_job(1)})")


class SteerSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    ask_to_cancel = f"""
        update <job> as job set cancel_lease = lease
        where id = {_ids("$1")} and cancel_lease is distinct from lease
        returning id"""
    # all of them are locked, those of which it was not asked too: from now on nobody can
    lock_attempts = """
        select mine.id, mine.asked
        from jsonb_array_elements($1::text::jsonb) as given (pair) cross join lateral (
          select id, coalesce(cancel_lease = lease, false) as asked from <job> as job
          where job.id = (given.pair ->> 0)::bigint and job.lease = (given.pair ->> 1)::bigint for update) as mine"""
    asked_to_cancel = f"""
        select {_ASKED} from <job> as job where id = {_ids("$1")} order by id"""
    interrupted = f"""
        select given.id, given.lease, job.id is not null, {_REASON}
        from (select (pair ->> 0)::bigint as id, (pair ->> 1)::bigint as lease
              from jsonb_array_elements($1::text::jsonb) as given (pair)) as given
        left join lateral (
          select id, lease, status, cancel_lease from <job> as job where job.id = given.id offset 0) as job
          on job.lease = given.lease and job.status = <running>
        where job.id is null or job.cancel_lease = job.lease"""
    lock_jobs = f"select {JOB_COLUMNS} from <job> as job where id = {_ids('$1')} order by id for update"
    cancel_waiting = f"""
        update <job> as job set status = <to:cancel>, lease = {NEXT_LEASE}, finished_at = <now>, error_code = $3::text,
          error_detail = $4::text
        where id = {_ids("$2")}"""
    unfinished_with_key = f"""
        select {JOB_COLUMNS} from <job> as job
        where key is not null and type = $1::text and key = $2::text and {_UNFINISHED}
          and ($3::bigint is null or id < $3::bigint)
        order by type desc, key desc, id desc limit $4::int"""

    record_last_attempts = f"""
        insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                               error_detail, traceback)
        select id, attempt, case when status = <failed> and error_code = '{LOST_CODE}' then 'lost' else status end,
               claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback
        from <job> where id = {_ids("$1")} and claimed_at is not null"""
    # what only the row said of its end is kept as an event
    keep_ends = f"""
        insert into <event> (job_id, at, event, detail)
        select id, coalesce(finished_at, created_at),
               case when status = <failed> then 'FAILED' when error_code = '{EXPIRED_CODE}' then 'EXPIRED'
                    else 'CANCELLED' end,
               case error_code when '{LOST_CODE}' then error_code when '{EXPIRED_CODE}' then error_detail
                    else error_code || coalesce(': ' || error_detail, '') end
        from <job> where id = {_ids("$1")}
          and (error_code = '{EXPIRED_CODE}' or (status = <failed> and error_code = '{LOST_CODE}')
               or (claimed_at is null and error_code in ({_OF_OTHERS})))"""
    rerun = f"""
        with given as materialized (select $2::text::jsonb as document)
        update <job> as job set status = case when {_RERUN_AT} > moment.now then <to:reschedule> else <to:rerun> end,
          lease = {NEXT_LEASE}, run_at = coalesce({_RERUN_AT}, moment.now),
          max_attempts = least(job.max_attempts + ({_of_job(0)})::int, {MOST_COUNT}),
          claimed_at = null, started_at = null, finished_at = null, heartbeat_at = null, expires_at = null, lost = 0,
          held = null, held_until = null, cancel_lease = null, result = null, error_code = null, error_detail = null,
          traceback = null
        from (select <now> as now) as moment
        where job.id = any (array(select key::bigint from jsonb_object_keys((select document from given)) as key))"""
    obstacles = f"""
        select job.id, 'key', other.id from <job> as job cross join lateral (
          select id from <job> as same
          where same.key is not null and same.type = job.type and same.key = job.key and same.id <> job.id
            and same.{_UNFINISHED} order by type desc, key desc, id desc limit 1) as other
        where job.id = {_ids("$1")}
        union all
        select job.id, 'chain', later.id from <job> as job cross join lateral (
          select id from <job> as step
          where step.chain_id is not null and step.chain_id = job.chain_id and step.chain_index > job.chain_index
            and not (step.attempt = 0 and step.status in (<blocked>, <failed>, <cancelled>))
          order by chain_id, chain_index limit 1) as later
        where job.id = {_ids("$1")}"""
    failed_with = f"""
        select {_MOMENT}, {JOB_COLUMNS} from <job> as job
        where status = <failed> and coalesce(error_code, '') = $1::text
          and (finished_at, id) > (to_timestamp($2::bigint / 1000000.0), $3::bigint) and isfinite(finished_at)
          and ($4::text is null or queue = $4::text) and ($5::text is null or type = $5::text)
        order by coalesce(error_code, ''), finished_at, id limit $6::int"""
    record_events = """
        insert into <event> (job_id, at, event, actor, detail)
        select value::bigint, <now>, $3::text, $4::text, $5::text
        from jsonb_array_elements_text($2::text::jsonb)"""

    reschedule = f"""
        update <job> as job set run_at = chosen.run_at, held = null, held_until = null,
          status = case when job.status = <blocked> then job.status when chosen.run_at > chosen.now then <to:reschedule>
                   else <to:stage> end
        from (select now, coalesce({time_of("$3")}, now + $4::bigint * interval '1 millisecond') as run_at
              from (select <now> as now) as clock) as chosen
        where job.id = $2::bigint"""
    set_priority = "update <job> set priority = $2::int where id = $1::bigint"

    pause = f"""
        insert into <pause> as pause (kind, name, actor, at) values ($2::text, $3::text, $4::text, <now>)
        on conflict (kind, name) do update set kind = excluded.kind
        returning pause.kind, pause.name, pause.actor, {milliseconds_of("pause.at")}"""
    resume = "delete from <pause> where kind = $1::text and name = $2::text returning name"
    paused = f"select kind, name, actor, {milliseconds_of('at')} from <pause> order by kind, name"


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(SteerSql).items() if isinstance(text, str) and not name.startswith("_")}
