"""Every statement of the PostgreSQL dialect, by name. A test prepares each, and checks the plans of the hot ones.

Parameters are text, whole numbers and floats alone, so that one text serves every driver; arrays and JSON come as text.
A clock in a condition stands in a subquery of its own: bare, it would be asked for each row and no index could be used.
"""

from __future__ import annotations

from rowcall.domain.lifecycle import EXPIRED_CODE
from rowcall.domain.payload import MISMATCH_CODE
from rowcall.store.dialect import Settlement, Success
from rowcall.store.postgres.words import (
    MOST_COUNT,
    MOST_LEASE,
    TABLES,
    field,
    fields,
    milliseconds_after,
    milliseconds_of,
    milliseconds_or_null,
    render,
    time_of,
)

_TIMES = {"run_at", "created_at", "claimed_at", "started_at", "finished_at", "heartbeat_at", "expires_at"}
_JSON = {"payload", "result", "tags"}
_JOB_COLUMNS = (
    "id, type, queue, payload, status, priority, attempt, max_attempts, run_at, created_at, claimed_at, started_at,"
    " finished_at, worker, heartbeat_at, progress, progress_message, result, error_code, error_detail, key, tags,"
    " chain_id, chain_index, expires_at, timeout, retry, lease"
)


def _shown(column: str) -> str:
    if column in _TIMES:
        return milliseconds_or_null(f"job.{column}")
    return f"job.{column}::text" if column in _JSON else f"job.{column}"


JOB_COLUMNS = ", ".join(_shown(column) for column in _JOB_COLUMNS.split(", "))
# plain SQL may have put the highest number there: such a job harms nobody but itself
NEXT_LEASE = f"least(job.lease, {MOST_LEASE - 1}) + 1"
_NEXT_ATTEMPT = f"least(job.attempt, {MOST_COUNT - 1}) + 1"
_READY_COLUMNS = ", ".join(
    [
        f"job.id, job.type, job.queue, job.payload::text, {_NEXT_ATTEMPT}, job.max_attempts, {NEXT_LEASE}, job.lost",
        f"job.priority, {milliseconds_of('job.run_at')}, {milliseconds_of('job.created_at')}, job.timeout, job.retry",
        f"job.key, job.tags::text, job.chain_id, job.chain_index, {milliseconds_of('job.expires_at')}",
        "job.trace_context, job.limits, coalesce(job.turn, job.id)",
    ]
)
_READY = "status = <pending> and held is null"
_MISMATCHED = "status = <pending> and held = 'mismatch'"
_PLACE = "coalesce(turn, id), id"
_WAITING = "status in <waiting>"
_OWNED_COLUMNS = (
    "job.id, job.lease, job.attempt, job.max_attempts, job.started_at is not null, job.queue::text, job.type::text"
)
_NOT_EXPIRED = "(job.expires_at is null or job.expires_at > (select <now>) or job.attempt > 0)"
LISTENING = "exists (select from <worker> where listening)"
_TO_QUEUE = "listening and (served is null or served ? $3::text)"
_LISTENING_TO_QUEUE = f"exists (select from <worker> where {_TO_QUEUE})"

_NEXT_DUE = f"(select {milliseconds_after('run_at')} from <job> where status = <scheduled> order by run_at limit 1)"
_NEXT_EXPIRY = (
    f"(select {milliseconds_after('expires_at')} from <job>"
    f" where expires_at is not null and attempt = 0 and {_WAITING} order by expires_at limit 1)"
)

# when a limit of rate or a schedule is to be looked at
_NEXT_WAKE = f"""
          least((select {milliseconds_after("min(opens_at)")} from <gate>),
                (select {milliseconds_after("min(next_run_at)")} from <schedule>
                 where paused = 0 and next_run_at is not null))"""
_ANY_UNSURE = "exists (select from <edge> where unsure <> 0)"

_INSERTED_COLUMNS = (
    "type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry, tags, expires_at,"
    " trace_context"
)
_LIMITED_COLUMNS = f"{_INSERTED_COLUMNS}, limits"
_GIVEN = f"""
  (select now, coalesce({time_of("$7")}, now + $8::bigint * interval '1 millisecond') as run_at,
          coalesce({time_of("$12")}, now + $13::bigint * interval '1 millisecond') as expires_at
   from (select <now> as now) as clock) as given"""
_DUE = "case when given.run_at > given.now then <to:postpone> else <to:enqueue> end"
_INSERTED = (
    f"status, {milliseconds_of('run_at')} as run_at, {milliseconds_of('created_at')} as created_at,"
    f" {milliseconds_of('expires_at')} as expires_at"
)

_STATEMENT_TIME = "date_trunc('milliseconds', statement_timestamp())"
_GIVEN_SEATS = ", $3::text, $4::int, $5::int"
_INSERT_PLAIN = f"""
        insert into <job> (type, payload, status, run_at, created_at, queue, priority, max_attempts)
        values ($1::text, $2::text::jsonb, <to:enqueue>, {_STATEMENT_TIME}, {_STATEMENT_TIME}{_GIVEN_SEATS})
        returning id, {milliseconds_of("created_at")}"""

_BEGAN = "coalesce(job.claimed_at, job.created_at)"


# Groups are never joined with the table: on a table that was analyzed while it was nearly empty, the planner turns such
# a join round, and the plan stays in the cache when a million rows have come. By `id = any(…)` it has one way only, and
# what belongs to a row is found by its place among the sorted ids, or under its id in a document.


def _given(parameter: str) -> str:
    """The value at the row's place, of an array that goes with the sorted ids in parameter 2."""
    return f"((select {parameter}::text::bigint[]))[width_bucket(job.id, (select $2::text::bigint[]))]"


_ended, _succeeded = fields(Settlement), fields(Success)


def _started(age_ms: str) -> str:
    return (
        f"case when {age_ms} is null then job.started_at"
        f" else greatest({_BEGAN}, moment.now - {age_ms} * interval '1 millisecond') end"
    )


def _finished(age_ms: str) -> str:
    return f"greatest({_BEGAN}, moment.now - {age_ms} * interval '1 millisecond')"


def _look(registered: str, more: str = "") -> str:
    return f"""
        with recursive found (queue, type) as (
          (select queue, type from <job> where {_READY} order by queue, type limit 1)
          union all
          select next.queue, next.type from found cross join lateral (
            select queue, type from <job> where {_READY} and (queue, type) > (found.queue, found.type)
            order by queue, type limit 1) as next
        ){more}
        select {milliseconds_of("(select <now>)")}, {_NEXT_DUE}, {_NEXT_EXPIRY}, exists ({registered}),
          (select coalesce(jsonb_agg(jsonb_build_array(queue, type)), '[]'::jsonb)::text from found), {_NEXT_WAKE},
          (select coalesce(jsonb_agg(jsonb_build_array(kind, name)), '[]'::jsonb)::text from <pause>),
          exists (select from <edge> where state = 'open'), {_ANY_UNSURE}, exists (select from <slot>),
          exists (select from <waiter>)"""


class Sql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))
        self._prefix = prefix

    # versions
    table_exists = "select 1 where to_regclass('<migration>') is not null"
    current_version = f"""
        select coalesce(max(version), 0), coalesce(max(coalesce(oldest, version)) filter (where version > $1::int), 0),
               (select string_agg(name, ',') from unnest(array[{", ".join(f"'<{table}>'" for table in TABLES)}]) as name
                where to_regclass(name) is null)
        from <migration>"""
    lock_migrations = "select pg_advisory_xact_lock(hashtextextended('<migration>', 0))"
    # whoever waits for an ALTER TABLE makes all others wait behind it
    wait_briefly = "select set_config('lock_timeout', '500ms', true)"
    schema_to_migrate = """
        select quote_ident(coalesce(
          (select nspname from pg_namespace
           where oid = (select relnamespace from pg_class where oid = to_regclass('<migration>'))),
          current_schema()))"""
    work_in_schema = "select set_config('search_path', $1::text, true)"
    record_migration = "insert into <migration> (version, name, applied_at, oldest) values ($2, $3, <now>, $4)"

    schema_of_tables = """
        select quote_ident(nspname) from pg_namespace
        where oid = (select relnamespace from pg_class where oid = to_regclass('<job>'))"""
    identity = """
        select (date_part('epoch', pg_postmaster_start_time()) * 1000000)::bigint,
          (select oid::bigint from pg_database where datname = current_database()),
          coalesce(to_regclass('<job>')::oid::bigint, 0), 'text'::text, 7::int4, 0.5::float8"""

    # enqueue
    insert = f"""
        insert into <job> ({_LIMITED_COLUMNS})
        select $2::text, $3::text, $4::text::jsonb, {_DUE}, $5::int, $6::int, given.run_at, given.now,
               $9::float8, $10::text, $11::text::jsonb, given.expires_at, $14::text, $15::text
        from {_GIVEN}
        returning id, {_INSERTED}, {_LISTENING_TO_QUEUE}"""
    # what most jobs are: due at once, with nothing special. One moment for both times, without a subquery to keep it
    insert_plain = f"{_INSERT_PLAIN}, {_LISTENING_TO_QUEUE}"
    insert_plain_lent = _INSERT_PLAIN
    insert_many = f"""
        with inserted as (
          insert into <job> ({_INSERTED_COLUMNS})
          select $2::text, $3::text, one.payload, {_DUE}, $5::int, $6::int, given.run_at, given.now,
                 $9::float8, $10::text, $11::text::jsonb, given.expires_at, $14::text
          from {_GIVEN}, jsonb_array_elements($4::text::jsonb) with ordinality as one (payload, place)
          returning id, {_INSERTED})
        select string_agg(id::text, ',' order by id), min(status), min(run_at), min(created_at), min(expires_at),
               {_LISTENING_TO_QUEUE}
        from inserted"""

    insert_many_limited = (
        insert_many.replace(_INSERTED_COLUMNS, _LIMITED_COLUMNS)
        .replace("one.payload,", "one.pair -> 0,")
        .replace("$14::text", "$14::text, one.pair ->> 1")
        .replace("one (payload, place)", "one (pair, place)")
    )

    # claim
    look = _look("select from <worker> where name = $2::text")
    # waits for whoever is about to declare this worker lost, and is told the outcome
    look_and_hold = _look("select from held", ", held as (select 1 from <worker> where name = $2::text for key share)")
    glance = f"""
        select {milliseconds_of("(select <now>)")},
          (select true from <job> where {_READY} order by queue, type, priority desc, {_PLACE} limit 1) is not null,
          {_NEXT_DUE}, {_NEXT_EXPIRY}, {_NEXT_WAKE}, {_ANY_UNSURE}"""
    stage = """
        with staged as (
          update <job> as job set status = <to:stage> where id = any (array(
            select id from <job> where status = <scheduled> and run_at <= (select <now>)
            order by run_at limit $2::int for update skip locked))
          returning 1)
        select count(*) from staged"""
    expire = f"""
        with expired as (
          update <job> as job set status = <to:expire>, lease = {NEXT_LEASE}, finished_at = moment.now,
            error_code = '{EXPIRED_CODE}', error_detail =
              'not started by ' || to_char(expires_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS') || ' UTC'
          from (select <now> as now) as moment
          where id = any (array(
            select id from <job>
            where expires_at is not null and attempt = 0 and {_WAITING} and expires_at <= (select <now>)
            order by expires_at limit $2::int for update skip locked))
          returning id, queue, type, attempt)
        select id, queue::text, type::text, attempt from expired"""
    ready_of_type = f"""
        select {_READY_COLUMNS} from <job> as job
        where {_READY} and queue = $2::text and type = $4::text and {_NOT_EXPIRED}
        order by priority desc, {_PLACE} limit $3::int for update skip locked"""
    # how many of each type are among the first, then as many of each: a limit for each type alone locks far too many
    ready_of_types = f"""
        with first as (
          select wanted.type, head.priority, head.place, head.id
          from jsonb_array_elements_text($4::text::jsonb) as wanted (type) cross join lateral (
            select priority, coalesce(turn, id) as place, id from <job>
            where {_READY} and queue = $2::text and type = wanted.type
            order by priority desc, {_PLACE} limit $3::int) as head
          order by head.priority desc, head.place, head.id limit $3::int
        ), share as materialized (select type, count(*) as jobs from first group by type)
        select mine.* from share cross join lateral (
          select {_READY_COLUMNS} from <job> as job
          where {_READY} and queue = $2::text and type = share.type and {_NOT_EXPIRED}
          order by priority desc, {_PLACE} limit share.jobs for update skip locked) as mine"""
    rest_of_types = f"""
        select mine.* from jsonb_array_elements_text($4::text::jsonb) as wanted (type) cross join lateral (
          select {_READY_COLUMNS} from <job> as job
          where {_READY} and queue = $2::text and type = wanted.type and {_NOT_EXPIRED}
          order by priority desc, {_PLACE} limit $3::int for update skip locked) as mine"""
    ready_ahead = rest_of_types.replace("for update skip locked", "")
    mark_claimed = f"""
        update <job> as job set status = <to:claim>, attempt = {_NEXT_ATTEMPT}, lease = {NEXT_LEASE}, worker = $2::text,
          claimed_at = greatest(moment.now, created_at),  -- it may have been committed after the clock was read
          started_at = case when id = any ($3::text::bigint[]) then greatest(moment.now, created_at) end,
          lease_ms = $5::bigint, lease_until = moment.now + $5::bigint * interval '1 millisecond',
          finished_at = null, heartbeat_at = null, progress = null, progress_message = null, result = null,
          error_code = null, error_detail = null, traceback = null
        from (select <now> as now) as moment
        where id = any ($3::text::bigint[] || $4::text::bigint[])"""
    mark_started = f"""
        update <job> as job
        set started_at = greatest(claimed_at, moment.now - {_given("$4")} * interval '1 millisecond')
        from (select <now> as now) as moment
        where job.id = any ($2::text::bigint[]) and job.lease = {_given("$3")}"""

    mark_progress = f"""
        with given as materialized (select $3::text::jsonb as document)
        update <job> as job set progress = ({field(2)})::float8, progress_message = {field(3)},
          heartbeat_at = moment.now
        from (select <now> as now) as moment
        where job.id = any ($2::text::bigint[]) and job.lease = ({field(1)})::bigint"""

    # jobs that a worker refused
    mismatched = f"""
        select {milliseconds_of("(select <now>)")}, (
          select coalesce(jsonb_agg(jsonb_build_array(id, queue, type, payload::text, priority, coalesce(turn, id),
                                                      {milliseconds_after("coalesce(held_until, run_at)")})
                                    order by id), '[]'::jsonb)::text
          from (select * from <job> where {_MISMATCHED} and id > $2::bigint order by id limit $3::int) as job)"""
    offered_jobs = f"""
        select {_READY_COLUMNS} from <job> as job
        where id = any ($2::text::bigint[]) and {_MISMATCHED} and {_NOT_EXPIRED} for update skip locked"""
    unhold_jobs = "update <job> set held = null where id = any ($1::text::bigint[])"
    extend_mismatched = f"""
        update <job> set held_until = <now> + $3::bigint * interval '1 millisecond' where id = any (array(
          select id from <job> where id = any ($2::text::bigint[]) and {_MISMATCHED} for update skip locked))"""
    fail_mismatched = f"""
        with failed as (
          update <job> as job set status = <to:refuse>, lease = {NEXT_LEASE}, held = null, finished_at = moment.now,
            error_code = '{MISMATCH_CODE}',
            error_detail = coalesce(error_detail || '; ', '') || 'no worker that fits claimed the job in time'
          from (select <now> as now) as moment
          where id = any (array(
            select id from <job>
            where id = any ($2::text::bigint[]) and {_MISMATCHED} and coalesce(held_until, run_at) <= (select <now>)
            order by id for update skip locked))
          returning id, queue, type, attempt)
        select id, queue::text, type::text, attempt from failed"""

    # settle
    settle_plain = f"""
        update <job> as job set status = <to:succeed>, lease = {NEXT_LEASE}, lease_until = null, result = null,
          started_at = {_started("nullif(" + _given("$4") + ", -1)")},
          finished_at = {_finished(_given("$5"))}
        from (select <now> as now) as moment
        where job.id = any ($2::text::bigint[]) and job.lease = {_given("$3")}
        returning job.id"""
    settle_with_results = f"""
        with given as materialized (select $3::text::jsonb as document)
        update <job> as job set status = <to:succeed>, lease = {NEXT_LEASE}, lease_until = null,
          result = {_succeeded.result}::jsonb,
          chain_id = case when {_succeeded.begins_chain} = 1 then job.id else job.chain_id end,
          chain_index = case when {_succeeded.begins_chain} = 1 then 0 else job.chain_index end,
          started_at = {_started(_succeeded.started_age_ms)},
          finished_at = {_finished(_succeeded.finished_age_ms)}
        from (select <now> as now) as moment
        where job.id = any ($2::text::bigint[]) and job.lease = {_succeeded.lease}
        returning job.id"""
    # locked until the commit: what is recorded of an attempt and what becomes of its job is written of the same rows
    live = """
        select mine.id from unnest($1::text::bigint[], $2::text::bigint[]) as given (id, lease) cross join lateral (
          select id from <job> as job where job.id = given.id and job.lease = given.lease for update) as mine"""
    record_attempts = f"""
        with given as materialized (select $3::text::jsonb as document)
        insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                               error_detail, traceback, next_run_at)
        select job.id, job.attempt, {_ended.attempt_status}, {_BEGAN},
               case when {_ended.hold_ms} is null then {_started(_ended.started_age_ms)} end,
               {_finished(_ended.finished_age_ms)}, job.worker, {_ended.error_code},
               {_ended.error_detail}, {_ended.traceback}, moment.now + {_ended.delay_ms} * interval '1 millisecond'
        from (select <now> as now) as moment, <job> as job
        where job.id = any ($2::text::bigint[]) and {_ended.attempt_recorded} = 1 and job.lease = {_ended.lease}"""
    settle_others = f"""
        with given as materialized (select $3::text::jsonb as document)
        update <job> as job set status = {_ended.status}, lease = {NEXT_LEASE}, lease_until = null,
          attempt = greatest(0, job.attempt - {_ended.attempt_returned}),
          lost = least(job.lost + {_ended.lost}, {MOST_COUNT}),
          claimed_at = case when {_ended.final} = 1 then job.claimed_at end,
          started_at = case when {_ended.final} = 1 then {_started(_ended.started_age_ms)} end,
          finished_at = case when {_ended.final} = 1 then {_finished(_ended.finished_age_ms)} end,
          run_at = coalesce(moment.now + {_ended.delay_ms} * interval '1 millisecond', job.run_at),
          expires_at = case when {_ended.attempt_returned} = 1 and {_ended.attempt_recorded} = 1
                            and {_ended.hold_ms} is null then null else job.expires_at end,
          held = case when {_ended.hold_ms} is null then job.held else 'mismatch' end,
          held_until = case when {_ended.hold_ms} is null
                            then case when {_ended.attempt_recorded} = 0 then job.held_until end
                            when job.held_until > moment.now then job.held_until
                            else moment.now + {_ended.hold_ms} * interval '1 millisecond' end,
          result = {_ended.result}::jsonb, error_code = {_ended.error_code}, error_detail = {_ended.error_detail},
          traceback = {_ended.traceback}
        from (select <now> as now) as moment
        where job.id = any ($2::text::bigint[]) and job.lease = {_ended.lease}"""
    concerned = """
        select exists (select from <edge> where state = 'open'), exists (select from <slot>),
          exists (select from <waiter>)"""
    complete = f"""
        update <job> as job set status = <to:succeed>, lease = {NEXT_LEASE}, lease_until = null,
          result = $4::text::jsonb, started_at = {_started("$5::bigint")}, finished_at = greatest({_BEGAN}, moment.now)
        from (select <now> as now) as moment
        where job.id = $2::bigint and job.lease = $3::bigint
        returning job.id, (exists (select from <waiter>))::int"""
    leases = "select id, lease, status from <job> where id = any ($1::text::bigint[]) for update skip locked"
    existing = "select id from <job> where id = any ($1::text::bigint[])"
    heartbeat = """
        update <job> as job
        set heartbeat_at = moment.now, lease_until = moment.now + lease_ms * interval '1 millisecond'
        from (select <now> as now) as moment where id = $2::bigint and lease = $3::bigint
        returning id"""

    # workers and recovery
    register = """
        insert into <worker> (name, host, pid, queues, concurrency, version, lease_ms, lock_path, served,
                              started_at, beat_at)
        select $2, $3, $4::int, $5, $6::int, $7, $8::bigint, $9, $10::text::jsonb, now, now
        from (select <now> as now) as moment"""
    beat = "update <worker> set beat = beat + 1, beat_at = <now> where name = $2::text returning beat"
    mark_listening = "update <worker> set listening = $2::int <> 0 where name = $1::text returning name"
    # who has written to the table and not committed yet may have decided to tell nobody before we said that we listen
    open_writers = """
        select distinct virtualtransaction from pg_locks
        where locktype = 'relation' and relation = to_regclass('<job>') and mode = 'RowExclusiveLock' and granted
          and database = (select oid from pg_database where datname = current_database())
          and pid <> pg_backend_pid()"""
    hint = f"select pg_notify('<channel>', '') where {LISTENING}"
    survey = """
        with recursive owner (name) as (
          (select worker from <job> where status = <running> order by worker limit 1)
          union all
          select next.worker from owner cross join lateral (
            select worker from <job> where status = <running> and worker > owner.name order by worker limit 1) as next
        )
        select coalesce((select jsonb_agg(jsonb_build_array(name, host, beat, lease_ms, lock_path) order by name)
                         from <worker>), '[]'::jsonb)::text,
          exists (select from <job> where status = <running> and lease_until is not null
                  and lease_until <= (select <now>)),
          exists (select from owner where not exists (select from <worker> where name = owner.name)
                  and exists (select from <job> where status = <running> and worker = owner.name
                              and lease_until is null))
          or exists (select from <job> where status = <running> and worker is null and lease_until is null)"""
    seize = """
        select 1 from <worker> where name = $1::text and ($2::bigint is null or beat = $2::bigint)
        for update skip locked"""
    retire = "delete from <worker> where name = $1::text"
    retire_if_idle = """
        delete from <worker> where name = $1::text
          and not exists (select from <job> where status = <running> and worker = $1::text and lease_until is null)
        returning name"""
    owned_by = f"""
        select {_OWNED_COLUMNS} from <job> as job
        where status = <running> and lease_until is null and worker = $1::text
        order by worker, id limit $2::int for update skip locked"""
    running_of = f"""
        select {_OWNED_COLUMNS} from <job> as job
        where status = <running> and lease_until is null and worker = $1::text
        order by worker, id limit $2::int"""
    orphans = f"""
        with recursive owner (name) as (
          (select worker from <job> where status = <running> order by worker limit 1)
          union all
          select next.worker from owner cross join lateral (
            select worker from <job> where status = <running> and worker > owner.name order by worker limit 1) as next
        ), gone as materialized (
          select name from owner where not exists (select from <worker> where name = owner.name)
        )
        select * from (
          select mine.* from gone cross join lateral (
            select {_OWNED_COLUMNS} from <job> as job
            where status = <running> and lease_until is null and worker = gone.name
            order by worker, id limit $1::int for update skip locked) as mine
          limit $1::int) as of_the_gone
        union all
        select * from (
          select {_OWNED_COLUMNS} from <job> as job
          where status = <running> and lease_until is null and worker is null
          order by worker, id limit $1::int for update skip locked) as of_nobody"""
    lease_expired = f"""
        select {_OWNED_COLUMNS} from <job> as job
        where status = <running> and lease_until is not null and lease_until <= (select <now>)
        order by lease_until limit $2::int for update skip locked"""

    # look and steer
    get = f"select {JOB_COLUMNS} from <job> as job where id = $1::bigint"
    lock = f"select {JOB_COLUMNS} from <job> as job where id = $1::bigint for update"
    attempts = f"""
        select job_id, attempt, status, {milliseconds_or_null("claimed_at")}, {milliseconds_or_null("started_at")},
               {milliseconds_or_null("finished_at")}, worker, error_code, error_detail, traceback,
               {milliseconds_or_null("next_run_at")}
        from <prefix>attempts where job_id = $1::bigint order by seq"""
    timeline = f"""
        select {milliseconds_or_null("at")}, event, actor, detail
        from <prefix>timeline where job_id = $1::bigint order by at, seq, rank"""
    workers = f"""
        select name, host, pid, queues, concurrency, version, {milliseconds_of("started_at")}, beat,
               {milliseconds_of("beat_at")}, lease_ms, lock_path,
               (select count(*) from <job> where status = <running> and lease_until is null and worker = name)
        from <worker> order by started_at, name"""

    delete = "delete from <job> where id = $1::bigint"


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(Sql).items() if isinstance(text, str) and not name.startswith("_")}
