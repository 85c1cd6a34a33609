"""Every statement of the SQLite dialect, by name. A test prepares each of them, and checks the plans of the hot ones.

Statements that a worker runs all the time give back one row with a JSON array in it: sqlite3 lets go of the
interpreter's lock at each row, and beside a busy handler thread takes up to 5 ms to have it back.
"""

from __future__ import annotations

from rowcall.domain.lifecycle import EXPIRED_CODE
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.store.dialect import Settlement, Success
from rowcall.store.sqlite.words import LARGEST, TABLES, given, next_of, render

JOB_COLUMNS = (
    "id, type, queue, payload, status, priority, attempt, max_attempts, run_at, created_at, claimed_at, started_at,"
    " finished_at, worker, heartbeat_at, progress, progress_message, result, error_code, error_detail, key, tags,"
    " chain_id, chain_index, expires_at, timeout, retry, lease"
)
_READY_COLUMNS = (
    f"job.id, job.type, job.queue, job.payload, {next_of('job.attempt')}, job.max_attempts, {next_of('job.lease')},"
    " job.lost,"
    " job.priority, job.run_at, job.created_at, job.timeout, job.retry, job.key, job.tags, job.chain_id,"
    " job.chain_index, job.expires_at, job.trace_context, job.limits,"
    " coalesce(job.turn, job.id)"
)
_WAITING = "status in <waiting>"
_READY = "<job> indexed by <prefix>job_ready where status = <pending> and held is null"
# when a limit of rate or a schedule is to be looked at
_WAKE = """(select min(at) from (
            select min(opens_at) as at from <gate>
            union all
            select min(next_run_at) from <schedule> indexed by <prefix>schedule_due
            where paused = 0 and next_run_at is not null))"""
_MISMATCHED = "<job> indexed by <prefix>job_mismatched where status = <pending> and held = 'mismatch'"
_IS_STARTED = "case when started_at is null then json('false') else json('true') end"
_OWNED_COLUMNS = f"id, lease, attempt, max_attempts, {_IS_STARTED}, queue, type"

_RETURNING_INSERTED = "returning id, status, run_at, created_at, expires_at"


class Sql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))
        self._prefix = prefix

    table_exists = "select 1 from sqlite_master where type = 'table' and name = '<migration>'"
    current_version = "select coalesce(max(version), 0) from <migration>"
    missing_tables = f"""
        select column1 from (values {", ".join(f"('<{table}>')" for table in TABLES)})
        where column1 not in (select name from sqlite_master where type = 'table')"""
    oldest_code = "select max(coalesce(oldest, version)) from <migration> where version > ?1"
    record_migration = "insert into <migration> (version, name, applied_at, oldest) values (?2, ?3, <now>, ?4)"

    insert = """
        insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at,
                           timeout, retry, tags, expires_at, trace_context, limits)
        values (?2, ?3, ?4, case when coalesce(?7, <now> + ?8) > <now> then <to:postpone> else <to:enqueue> end, ?5, ?6,
                coalesce(?7, <now> + ?8), <now>, ?9, ?10, ?11, coalesce(?12, <now> + ?13), ?14, ?15)
        returning id, status, run_at, created_at, expires_at"""
    # what most jobs are: due at once, with nothing special
    insert_plain = """
        insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at)
        values (?1, ?2, ?3, <to:enqueue>, ?4, ?5, <clock>, <clock>)
        returning id, created_at"""
    insert_many = """
        insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at,
                           timeout, retry, tags, expires_at, trace_context)
        select ?2, ?3, value, case when coalesce(?7, <now> + ?8) > <now> then <to:postpone> else <to:enqueue> end,
               ?5, ?6, coalesce(?7, <now> + ?8), <now>, ?9, ?10, ?11, coalesce(?12, <now> + ?13), ?14
        from json_each(?4)"""
    insert_many_limited = """
        insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at,
                           timeout, retry, tags, expires_at, trace_context, limits)
        select ?2, ?3, json_extract(value, '$[0]'),
               case when coalesce(?7, <now> + ?8) > <now> then <to:postpone> else <to:enqueue> end, ?5, ?6,
               coalesce(?7, <now> + ?8), <now>, ?9, ?10, ?11, coalesce(?12, <now> + ?13), ?14,
               json_extract(value, '$[1]')
        from json_each(?4)"""
    insert_many_lent = f"{insert_many} {_RETURNING_INSERTED}"
    insert_many_limited_lent = f"{insert_many_limited} {_RETURNING_INSERTED}"
    last_inserted = "select id, status, run_at, created_at, expires_at from <job> where id = last_insert_rowid()"

    look = f"""
        with recursive found (pair) as (
          select (select json_array(queue, type) from {_READY} order by queue, type limit 1)
          union all
          select coalesce(
            (select json_array(queue, type) from {_READY}
             and queue = json_extract(pair, '$[0]') and type > json_extract(pair, '$[1]') order by type limit 1),
            (select json_array(queue, type) from {_READY}
             and queue > json_extract(pair, '$[0]') order by queue, type limit 1))
          from found where pair is not null
        )
        select <now>,
          (select min(run_at) from <job> indexed by <prefix>job_due where status = <scheduled>),
          (select min(expires_at) from <job> indexed by <prefix>job_expiry
           where expires_at is not null and attempt = 0 and {_WAITING}),
          exists (select 1 from <worker> where name = ?2),
          (select json_group_array(json(pair)) from found where pair is not null), {_WAKE},
          (select json_group_array(json_array(kind, name)) from <pause>),
          exists (select 1 from <edge> indexed by <prefix>edge_open where state = 'open'), 0,
          exists (select 1 from <slot>), 0"""
    glance = f"""
        select <now>, exists (select 1 from {_READY}),
          (select min(run_at) from <job> indexed by <prefix>job_due where status = <scheduled>),
          (select min(expires_at) from <job> indexed by <prefix>job_expiry
           where expires_at is not null and attempt = 0 and {_WAITING}), {_WAKE}, 0"""
    stage = """
        update <job> set status = <to:stage> where id in (
          select id from <job> indexed by <prefix>job_due where status = <scheduled> and run_at <= <now>
          order by run_at limit ?2)"""
    expire = f"""
        update <job> set status = <to:expire>, lease = {next_of("lease")}, finished_at = <now>,
          error_code = '{EXPIRED_CODE}',
          error_detail = 'not started by ' || strftime('%Y-%m-%d %H:%M:%f', expires_at / 1000.0, 'unixepoch') || ' UTC'
        where id in (
          select id from <job> indexed by <prefix>job_expiry
          where expires_at is not null and attempt = 0 and {_WAITING} and expires_at <= <now>
          order by expires_at limit ?2)
        returning id, queue, type, attempt"""
    retag_due = """
        update <job_tag> set status = <to:stage> where job_id in (
          select id from <job> indexed by <prefix>job_due where status = <scheduled> and run_at <= <now>
          order by run_at limit ?2)"""
    mark_claimed = f"""
        update <job> set status = <to:claim>, attempt = {next_of("attempt")}, lease = {next_of("lease")}, worker = ?2,
          claimed_at = max(<now>, created_at), started_at = case when ?5 then max(<now>, created_at) end,
          lease_ms = ?4, lease_until = <now> + ?4,
          finished_at = null, heartbeat_at = null, progress = null, progress_message = null, result = null,
          error_code = null, error_detail = null, traceback = null
        where id in (select value from json_each(?3))"""
    mark_started = """
        update <job> set started_at = max(claimed_at, <now> - given.age)
        from (select json_extract(value, '$[0]') as id, json_extract(value, '$[1]') as lease,
                     json_extract(value, '$[2]') as age from json_each(?2)) given
        where <job>.id = given.id and <job>.lease = given.lease"""

    mark_progress = """
        update <job> set progress = given.share, progress_message = given.message, heartbeat_at = <now>
        from (select json_extract(value, '$[0]') as id, json_extract(value, '$[1]') as lease,
                     json_extract(value, '$[2]') as share, json_extract(value, '$[3]') as message
              from json_each(?2)) given
        where <job>.id = given.id and <job>.lease = given.lease"""

    mismatched = f"""
        select <now>, (
          select json_group_array(json_array(id, queue, type, payload, priority, coalesce(turn, id),
                                             coalesce(held_until, run_at)))
          from (select * from {_MISMATCHED} and id > ?2 order by id limit ?3))"""
    offered_jobs = f"""
        select json_group_array(json_array({_READY_COLUMNS}))
        from json_each(?2) as given cross join <job> as job on job.id = given.value
        where job.status = <pending> and job.held = 'mismatch'
          and (job.expires_at is null or job.expires_at > <now> or job.attempt > 0)"""
    # by id: the plus keeps SQLite from going through all that are held
    unhold_jobs = "update <job> set held = null where id in (select value from json_each(?1))"
    extend_mismatched = """
        update <job> set held_until = <now> + ?3
        where id in (select value from json_each(?2)) and status = <pending> and +held = 'mismatch'"""
    fail_mismatched = f"""
        update <job> set status = <to:refuse>, lease = {next_of("lease")}, held = null, finished_at = <now>,
          error_code = '{MISMATCH_CODE}',
          error_detail = coalesce(error_detail || '; ', '') || 'no worker that fits claimed the job in time'
        where id in (select value from json_each(?2)) and status = <pending> and +held = 'mismatch'
          and coalesce(held_until, run_at) <= <now>
        returning id, queue, type, attempt"""

    live = """
        select json_group_array(job.id) from json_each(?1) as given
        cross join <job> as job
        where job.id = json_extract(given.value, '$[0]') and job.lease = json_extract(given.value, '$[1]')"""
    changes = "select changes()"
    concerned = """
        select exists (select 1 from <edge> indexed by <prefix>edge_open where state = 'open'),
          exists (select 1 from <slot>)"""
    mark = "savepoint rowcall_settle"
    back_to_mark = "rollback to rowcall_settle"
    settle_successes = f"""
        update <job> set status = <to:succeed>, lease = {next_of("<job>.lease")}, lease_until = null,
          started_at = coalesce(max(coalesce(claimed_at, created_at), <now> - given.started_age_ms), started_at),
          finished_at = max(coalesce(claimed_at, created_at), <now> - given.finished_age_ms), result = given.result,
          chain_id = case when given.begins_chain then <job>.id else chain_id end,
          chain_index = case when given.begins_chain then 0 else chain_index end
        from {given(Success, "?2")}
        where <job>.id = given.id and <job>.lease = given.lease"""
    # id, lease and both ages in one number: reading five values out of an array took half of the settle
    settle_packed = """
        update <job> set status = <to:succeed>, lease = <job>.lease + 1, lease_until = null, result = null,
          started_at = max(coalesce(claimed_at, created_at), <now> - ((given.value >> 10) & 1023)),
          finished_at = max(coalesce(claimed_at, created_at), <now> - (given.value & 1023))
        from json_each(?2) as given
        where <job>.id = given.value >> 32 and <job>.lease = ((given.value >> 20) & 4095)"""
    record_attempts = f"""
        insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                               error_detail, traceback, next_run_at)
        select job.id, job.attempt, given.attempt_status, coalesce(job.claimed_at, job.created_at),
               case when given.hold_ms is null then
                 coalesce(max(coalesce(job.claimed_at, job.created_at), <now> - given.started_age_ms),
                          job.started_at) end,
               max(coalesce(job.claimed_at, job.created_at), <now> - given.finished_age_ms), job.worker,
               given.error_code, given.error_detail, given.traceback, <now> + given.delay_ms
        from {given(Settlement, "?2")} cross join <job> as job
        where given.attempt_recorded and job.id = given.id and job.lease = given.lease"""
    settle_others = f"""
        update <job> set status = given.status, lease = {next_of("<job>.lease")}, lease_until = null,
          attempt = max(0, attempt - given.attempt_returned), lost = min(<job>.lost + given.lost, {LARGEST}),
          claimed_at = case when given.final then claimed_at end,
          started_at = case when given.final
            then coalesce(max(coalesce(claimed_at, created_at), <now> - given.started_age_ms), started_at) end,
          finished_at = case when given.final
            then max(coalesce(claimed_at, created_at), <now> - given.finished_age_ms) end,
          run_at = coalesce(<now> + given.delay_ms, run_at),
          expires_at = case when given.attempt_returned and given.attempt_recorded and given.hold_ms is null
                            then null else expires_at end,
          held = case when given.hold_ms is null then held else 'mismatch' end,
          held_until = case when given.hold_ms is null then case when not given.attempt_recorded then held_until end
                            when held_until > <now> then held_until else <now> + given.hold_ms end,
          result = given.result, error_code = given.error_code, error_detail = given.error_detail,
          traceback = given.traceback
        from {given(Settlement, "?2")}
        where <job>.id = given.id and <job>.lease = given.lease"""
    complete = f"""
        update <job> set status = <to:succeed>, lease = {next_of("lease")}, lease_until = null, result = ?4,
          started_at = coalesce(max(coalesce(claimed_at, created_at), <now> - ?5), started_at),
          finished_at = max(coalesce(claimed_at, created_at), <now>)
        where id = ?2 and lease = ?3
        returning id"""
    leases = "select id, lease, status from <job> where id in (select value from json_each(?1))"
    heartbeat = """
        update <job> set heartbeat_at = <now>, lease_until = <now> + lease_ms where id = ?2 and lease = ?3
        returning id"""

    register = """
        insert into <worker> (name, host, pid, queues, concurrency, version, lease_ms, lock_path, started_at, beat_at)
        values (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, <now>, <now>)"""
    beat = "update <worker> set beat = beat + 1, beat_at = <now> where name = ?2 returning beat"
    peers = "select name, host, beat, lease_ms, lock_path from <worker> order by name"
    seize = "select 1 from <worker> where name = ?1 and (?2 is null or beat = ?2)"
    retire = "delete from <worker> where name = ?1"
    owned_by = f"""
        select json_group_array(json_array({_OWNED_COLUMNS})) from (
          select * from <job> indexed by <prefix>job_owned
          where status = <running> and lease_until is null and worker = ?1 limit ?2)"""
    orphans = f"""
        select json_group_array(json_array({_OWNED_COLUMNS})) from (
          select * from <job> indexed by <prefix>job_owned
          where status = <running> and lease_until is null
            and not exists (select 1 from <worker> where name = <job>.worker) limit ?1)"""
    lease_expired = f"""
        select json_group_array(json_array({_OWNED_COLUMNS})) from (
          select * from <job> indexed by <prefix>job_leased
          where status = <running> and lease_until is not null and lease_until <= <now>
          order by lease_until limit ?2)"""

    get = f"select {JOB_COLUMNS} from <job> where id = ?1"
    attempts = """
        select job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code, error_detail,
               traceback, next_run_at
        from <prefix>attempts where job_id = ?1 order by seq"""
    timeline = """
        select at, event, actor, detail from <prefix>timeline where job_id = ?1 order by at, seq, rank"""
    workers = """
        select name, host, pid, queues, concurrency, version, started_at, beat, beat_at, lease_ms, lock_path,
               (select count(*) from <job> indexed by <prefix>job_owned
                where status = <running> and lease_until is null and worker = name)
        from <worker> order by started_at, name"""

    delete = "delete from <job> where id = ?1"

    def ready_jobs(self, types: int) -> str:
        """The first jobs of some types of one queue: each type is read in order, and SQLite merges them lazily."""
        arm = f"select priority, coalesce(turn, id) as place, id from {_READY} and queue = ?2 and type = "
        arms = " union all ".join(f"{arm}?{4 + number}" for number in range(types))
        return render(
            f"""
            select json_group_array(json_array({_READY_COLUMNS}))
            from ({arms} order by priority desc, place, id limit ?3) as first
            cross join <job> as job on job.id = first.id
            where (job.expires_at is null or job.expires_at > <now> or job.attempt > 0)""",
            self._prefix,
        )


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(Sql).items() if isinstance(text, str) and not name.startswith("_")}
