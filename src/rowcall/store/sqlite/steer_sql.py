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
from rowcall.store.sqlite.sql import JOB_COLUMNS
from rowcall.store.sqlite.words import LARGEST, next_of, render

_SHOWN = ", ".join(f"job.{column.strip()}" for column in JOB_COLUMNS.split(","))
_OF_OTHERS = f"'{BLOCKER_FAILED_CODE}', '{BLOCKER_CANCELLED_CODE}', '{CHAIN_COMPLETED_CODE}', '{MISMATCH_CODE}'"
_UNFINISHED = "status in <unfinished>"
_REASON = """(select detail from <event> as event
           where event.job_id = job.id and event = 'CANCEL_REQUESTED' order by event.id desc limit 1)"""
_ASKED = f"job.id, job.lease, job.queue, job.type, job.attempt, {_REASON}"


class SteerSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    ask_to_cancel = """
        update <job> set cancel_lease = lease
        where id in (select value from json_each(?1)) and cancel_lease is not lease
        returning id"""
    asked_to_cancel = f"""
        select {_ASKED} from json_each(?1) as given cross join <job> as job
        where job.id = json_extract(given.value, '$[0]') and job.lease = json_extract(given.value, '$[1]')
          and job.cancel_lease = job.lease"""
    interrupted = f"""
        select given.id, given.lease, job.id is not null, {_REASON}
        from (select json_extract(value, '$[0]') as id, json_extract(value, '$[1]') as lease from json_each(?1)) given
        left join <job> as job on job.id = given.id and job.lease = given.lease and +job.status = <running>
        where job.id is null or job.cancel_lease = job.lease"""
    lock_jobs = f"select {JOB_COLUMNS} from <job> where id in (select value from json_each(?1)) order by id"
    cancel_waiting = f"""
        update <job> set status = <to:cancel>, lease = {next_of("lease")}, finished_at = <now>, error_code = ?3,
          error_detail = ?4
        where id in (select value from json_each(?2))"""
    unfinished_with_key = f"""
        select {JOB_COLUMNS} from <job> indexed by <prefix>job_key
        where key is not null and type = ?1 and key = ?2 and {_UNFINISHED} and (?3 is null or id < ?3)
        order by id desc limit ?4"""

    record_last_attempts = f"""
        insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                               error_detail, traceback)
        select id, attempt, case when status = <failed> and error_code = '{LOST_CODE}' then 'lost' else status end,
               claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback
        from <job> where id in (select value from json_each(?1)) and claimed_at is not null"""
    # what only the row said of its end is kept as an event
    keep_ends = f"""
        insert into <event> (job_id, at, event, detail)
        select id, coalesce(finished_at, created_at),
               case when status = <failed> then 'FAILED' when error_code = '{EXPIRED_CODE}' then 'EXPIRED'
                    else 'CANCELLED' end,
               case error_code when '{LOST_CODE}' then error_code when '{EXPIRED_CODE}' then error_detail
                    else error_code || coalesce(': ' || error_detail, '') end
        from <job> where id in (select value from json_each(?1))
          and (error_code = '{EXPIRED_CODE}' or (status = <failed> and error_code = '{LOST_CODE}')
               or (claimed_at is null and error_code in ({_OF_OTHERS})))"""
    rerun = f"""
        update <job> set
          status = case when coalesce(given.run_at, <now>) > <now> then <to:reschedule> else <to:rerun> end,
          lease = {next_of("lease")}, run_at = coalesce(given.run_at, <now>),
          max_attempts = min(max_attempts + given.more, {LARGEST}),
          claimed_at = null, started_at = null, finished_at = null, heartbeat_at = null, expires_at = null, lost = 0,
          held = null, held_until = null, cancel_lease = null, result = null, error_code = null, error_detail = null,
          traceback = null
        from (select cast(key as integer) as id, json_extract(value, '$[0]') as more,
                     json_extract(value, '$[1]') as run_at from json_each(?2)) as given
        where <job>.id = given.id"""
    obstacles = f"""
        select job.id, 'key', other.id from json_each(?1) as given cross join <job> as job on job.id = given.value
          cross join <job> as other indexed by <prefix>job_key
            on other.type = job.type and other.key = job.key and other.key is not null
        where other.id <> job.id and other.{_UNFINISHED}
        union all
        select job.id, 'chain', later.id from json_each(?1) as given cross join <job> as job on job.id = given.value
          cross join <job> as later indexed by <prefix>job_chain
            on later.chain_id = job.chain_id and later.chain_id is not null
        where later.chain_index > job.chain_index and not (
          later.attempt = 0 and later.status in (<blocked>, <failed>, <cancelled>))"""
    failed_with = f"""
        select job.finished_at, {_SHOWN} from <job> as job indexed by <prefix>job_failed
        where status = <failed> and coalesce(error_code, '') = ?1 and (finished_at, id) > (?2, ?3)
          and typeof(finished_at) = 'integer' and (?4 is null or queue = ?4) and (?5 is null or type = ?5)
        order by finished_at, id limit ?6"""
    record_events = """
        insert into <event> (job_id, at, event, actor, detail) select value, <now>, ?3, ?4, ?5 from json_each(?2)"""

    reschedule = """
        update <job> set run_at = coalesce(?3, <now> + ?4), held = null, held_until = null,
          status = case when status = <blocked> then status when coalesce(?3, <now> + ?4) > <now> then <to:reschedule>
                        else <to:stage> end
        where id = ?2"""
    set_priority = "update <job> set priority = ?2 where id = ?1"

    pause = """
        insert into <pause> (kind, name, actor, at) values (?2, ?3, ?4, <now>)
        on conflict (kind, name) do update set kind = excluded.kind
        returning kind, name, actor, at"""
    resume = "delete from <pause> where kind = ?1 and name = ?2 returning name"
    paused = "select kind, name, actor, at from <pause> order by kind, name"


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(SteerSql).items() if isinstance(text, str) and not name.startswith("_")}
