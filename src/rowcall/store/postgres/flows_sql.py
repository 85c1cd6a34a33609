"""Statements about edges, chains and keys. Those that give many rows give them as one JSON array.

On a lent connection every statement has to give rows. Joins are lateral, behind a fence: they have one way only.
"""

from __future__ import annotations

from rowcall.store.postgres.sql import JOB_COLUMNS, LISTENING, NEXT_LEASE
from rowcall.store.postgres.words import milliseconds_of, milliseconds_or_null, render, time_of

_ENDED = "in <finished>"
_WAITING = "status in <waiting>"


def _field(number: int) -> str:
    return f"(given.value ->> {number})"


def _array_of(columns: str, source: str) -> str:
    return f"select coalesce(jsonb_agg(jsonb_build_array({columns})), '[]'::jsonb)::text from {source}"


def _of_job(number: int) -> str:
    """A field of what is given for the row of a job, in an object with the ids of jobs as keys."""
    return f"((select document from given) -> job.id::text ->> {number})"


_GIVEN = "given as materialized (select $2::text::jsonb as document)"
_IS_GIVEN = "job.id = any (array(select key::bigint from jsonb_object_keys((select document from given)) as key))"


def _rows_of(parameter: str) -> str:
    return f"jsonb_array_elements({parameter}::text::jsonb) as given (value)"


_RUN_AT = f"coalesce({time_of(_field(5))}, moment.now + {_field(6)}::bigint * interval '1 millisecond')"
_EXPIRES_AT = f"coalesce({time_of(_field(10))}, moment.now + {_field(11)}::bigint * interval '1 millisecond')"
_NEW_RUN_AT = f"coalesce({time_of(_of_job(2))}, moment.now + {_of_job(3)}::bigint * interval '1 millisecond')"
# Where statistics are of a time when no edge was open, the index of open edges looks empty, and is gone through whole.
_OPEN = "state || '' = 'open'"
# So it is with the index of blocked jobs: where ids are given, the primary key is the way.
_BLOCKED = "status || '' = <blocked>"
_EDGE_COLUMNS = "blocker_id, of_chain, job_id, on_failure, status, error_code"
# the last step says how a chain ended; until then, the first that has not succeeded says where it is
_LAST = "(select {} from <job> as step where step.chain_id = head.id order by step.chain_index desc limit 1)"
_CURRENT = """(select {} from <job> as step where step.chain_id = head.id and step.status <> <succeeded>
               order by step.chain_index limit 1)"""
_CHAIN_STATUS = f"""case when {_LAST.format("step.status")} {_ENDED} then {_LAST.format("step.status")}
               else {_CURRENT.format("step.status")} end"""
_CHAIN = f"""
        select * from (
          select head.id, head.type::text, head.queue::text, {_CHAIN_STATUS} as status,
                 {_LAST.format("step.chain_index")} + 1 as length,
                 coalesce({_CURRENT.format("step.id")}, {_LAST.format("step.id")}) as current,
                 {milliseconds_or_null("head.created_at")} as created_at,
                 {_LAST.format(milliseconds_or_null("step.finished_at"))} as finished_at,
                 {_LAST.format("step.result::text")} as result, {_LAST.format("step.error_code")} as error_code,
                 {_LAST.format("step.error_detail")} as error_detail
          from <job> as head
          where head.chain_index = 0 and head.chain_id = head.id and {{}} order by head.id desc
        ) as chain"""
_STATUS_OF_BLOCKER = f"""case when {{}} <> 0 then coalesce({_LAST.format("step.status::text")}, head.status::text)
                 else head.status::text end"""


class FlowsSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    insert_orders = f"""
        with inserted as (
          insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry,
                             tags, expires_at, trace_context, key, limits, chain_id, chain_index)
          select {_field(0)}, {_field(1)}, {_field(2)}::jsonb,
                 case when {_field(15)}::boolean then <to:block> when {_RUN_AT} > moment.now then <to:postpone>
                 else <to:enqueue> end,
                 {_field(3)}::int, {_field(4)}::int, {_RUN_AT}, moment.now, {_field(7)}::float8, {_field(8)},
                 {_field(9)}::jsonb, {_EXPIRES_AT}, {_field(12)}, {_field(13)}, {_field(14)},
                 {_field(16)}::bigint, {_field(17)}::int
          from (select <now> as now) as moment,
               jsonb_array_elements($2::text::jsonb) with ordinality as given (value, place)
          order by given.place
          returning id, status, {milliseconds_of("run_at")} as run_at, {milliseconds_of("created_at")} as created_at,
                    {milliseconds_of("expires_at")} as expires_at)
        select jsonb_agg(jsonb_build_array(id, status, run_at, created_at, expires_at) order by id)::text, {LISTENING}
        from inserted"""
    mark_chains = f"""
        update <job> as job set chain_id = {_field(1)}::bigint, chain_index = {_field(2)}::int
        from {_rows_of("$1")} where job.id = {_field(0)}::bigint
        returning job.id"""
    standing = _array_of(
        f"head.id, given.value -> 1, {_STATUS_OF_BLOCKER.format(f'{_field(1)}::int')}, head.type,"
        f" {milliseconds_or_null('head.created_at')}",
        f"{_rows_of('$1')} cross join lateral (select * from <job> where id = {_field(0)}::bigint offset 0) as head",
    )
    insert_edges = f"""
        insert into <edge> (blocker_id, of_chain, job_id, place, on_failure, unsure)
        select {_field(0)}::bigint, {_field(1)}::int, {_field(2)}::bigint, {_field(3)}::int, {_field(4)},
               {_field(5)}::int
        from {_rows_of("$1")}
        returning job_id"""
    settle_edges = f"""
        update <edge> as edge set state = $2::text, resolved_at = <now>, unsure = 0
        from {_rows_of("$3")}
        where edge.blocker_id = {_field(0)}::bigint and edge.of_chain = {_field(1)}::int
          and edge.job_id = {_field(2)}::bigint
        returning edge.job_id"""
    ends_of = _array_of(
        _EDGE_COLUMNS,
        f"""(
          select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure,
                 {_STATUS_OF_BLOCKER.format("edge.of_chain")} as status,
                 case when edge.of_chain <> 0 then {_LAST.format("step.error_code")} else head.error_code end
                   as error_code
          from {_rows_of("$1")} cross join lateral (
            select * from <edge> where blocker_id = {_field(0)}::bigint and job_id = {_field(1)}::bigint
              and {_OPEN} offset 0) as edge
          cross join lateral (select * from <job> where id = edge.blocker_id offset 0) as head) as ended
        where status {_ENDED}""",
    )
    lock_blocked = f"""
        select mine.id from unnest($1::text::bigint[]) as given (id) cross join lateral (
          select id from <job> where id = given.id and {_BLOCKED} for update) as mine"""
    end_blocked = f"""
        with {_GIVEN}, ended as (
          update <job> as job set status = {_of_job(1)}, lease = {NEXT_LEASE}, finished_at = moment.now,
            error_code = {_of_job(2)}, error_detail = {_of_job(3)}
          from (select <now> as now) as moment where {_IS_GIVEN} and job.{_BLOCKED}
          returning job.id, job.queue, job.type, job.attempt)
        {_array_of("id, queue, type, attempt", "ended")}"""
    # a turn is a number between the ids of those before it and of those that come later
    unblock = f"""
        with unblocked as (
          update <job> as job set status = case when job.run_at > moment.now then <to:defer> else <to:unblock> end,
            run_at = greatest(job.run_at, moment.now), turn = (select nextval(pg_get_serial_sequence('<job>', 'id')))
          from (select <now> as now) as moment
          where job.id = any ($2::text::bigint[]) and job.{_BLOCKED}
            and not exists (select from <edge> as edge where edge.job_id = job.id and edge.state = 'open' offset 0)
          returning job.id)
        select coalesce(jsonb_agg(id), '[]'::jsonb)::text, count(*) > 0 from unblocked"""
    ended_edges = _array_of(
        _EDGE_COLUMNS,
        f"""(
          select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, blocker.status, blocker.error_code
          from unnest($1::text::bigint[]) as given (id) cross join lateral (
            select * from <edge> where blocker_id = given.id and of_chain = 0 and {_OPEN} offset 0) as edge
          cross join lateral (select status, error_code from <job> where id = given.id offset 0) as blocker
          where blocker.status {_ENDED}
          union all
          select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, step.status, step.error_code
          from unnest($1::text::bigint[]) as given (id) cross join lateral (
            select chain_id, chain_index, status, error_code from <job> where id = given.id offset 0) as step
          cross join lateral (
            select * from <edge> where blocker_id = step.chain_id and of_chain = 1 and {_OPEN} offset 0) as edge
          where step.chain_id is not null and step.status {_ENDED} and not exists (
            select from <job> as later
            where later.chain_id = step.chain_id and later.chain_index > step.chain_index offset 0)
        ) as ended""",
    )
    doubt_edges = f"""
        update <edge> as edge set unsure = 1
        from (values ($1::bigint, 0), ((select chain_id from <job> where id = $1::bigint), 1)) as given (id, of_chain)
        where edge.blocker_id = given.id and edge.of_chain = given.of_chain and {_OPEN}
        returning edge.job_id"""

    unsure_edges = _array_of(
        "blocker_id, of_chain, job_id, on_failure",
        "(select * from <edge> where unsure <> 0 order by random() limit $1::int) as unsure",
    )
    last_steps = _array_of(
        "given.id, last.id",
        """unnest($1::text::bigint[]) as given (id) cross join lateral (
          select id from <job> where chain_id = given.id order by chain_index desc limit 1) as last""",
    )
    lock_blockers = """
        select mine.id, mine.status::text, mine.error_code
        from unnest($1::text::bigint[]) as given (id) cross join lateral (
          select id, status, error_code from <job> where id = given.id for share skip locked) as mine"""
    existing = "select id from <job> where id = any ($1::text::bigint[])"
    trust_edges = f"""
        update <edge> as edge set unsure = 0 from {_rows_of("$1")}
        where edge.blocker_id = {_field(0)}::bigint and edge.of_chain = {_field(1)}::int
          and edge.job_id = {_field(2)}::bigint
        returning edge.job_id"""

    # in the order of the numbers, so that no two wait for each other
    lock_keys = """
        select pg_advisory_xact_lock(hash) from (
          select distinct hashtextextended(value, hashtextextended($1::text, 6)) as hash
          from jsonb_array_elements_text($2::text::jsonb) order by 1) as hashes"""
    transaction_began = "select now()::text"
    isolation = "select current_setting('transaction_isolation')"
    key_holders = _array_of(
        "given.key, holder.id, holder.status",
        f"""jsonb_array_elements_text($3::text::jsonb) as given (key) cross join lateral (
          select id, status from <job>
          where key is not null and type = $2::text and key = given.key
            and ($4::text = 'any' or status = <running> or {_WAITING})
            and ($5::bigint is null or created_at > (select <now>) - $5::bigint * interval '1 millisecond')
          order by type desc, key desc, id desc limit 1) as holder""",
    )
    replace_waiting = f"""
        with {_GIVEN}, replaced as (
          update <job> as job set payload = {_of_job(1)}::jsonb, run_at = {_NEW_RUN_AT},
            expires_at = coalesce({time_of(_of_job(4))},
                                  moment.now + {_of_job(5)}::bigint * interval '1 millisecond'),
            limits = {_of_job(6)}, held = null, held_until = null,
            status = case when job.status = <blocked> then job.status
                          when {_NEW_RUN_AT} > moment.now then <to:reschedule> else <to:stage> end
          from (select <now> as now) as moment where {_IS_GIVEN} and job.{_WAITING}
          returning job.id)
        select coalesce(jsonb_agg(id), '[]'::jsonb)::text, count(*) > 0 from replaced"""
    get_all = f"select {JOB_COLUMNS} from <job> as job where id = any ($1::text::bigint[])"

    chain = _CHAIN.format("head.id = $1::bigint")
    chain_steps = f"select {JOB_COLUMNS} from <job> as job where chain_id = $1::bigint order by chain_index"
    list_chains = f"""
        {_CHAIN.format("head.id < $1::bigint and ($2::text is null or head.type = $2::text)")}
        where $3::text is null or status = $3::text limit $4::int"""
    taken_steps = _array_of(
        "step.chain_id, step.chain_index",
        f"""{_rows_of("$1")} cross join lateral (
          select chain_id, chain_index from <job>
          where chain_id = {_field(0)}::bigint and chain_index = {_field(1)}::int offset 0) as step""",
    )
    blocker_results = f"""
        select edge.place,
               case when edge.of_chain <> 0 and head.chain_index = 0 then {_CHAIN_STATUS} else head.status end::text,
               case when edge.of_chain <> 0 and head.chain_index = 0 then {_LAST.format("step.result")}
               else head.result end::text,
               edge.blocker_id, edge.of_chain, edge.state
        from <edge> as edge left join <job> as head on head.id = edge.blocker_id
        where edge.job_id = $1::bigint order by edge.place"""
    # a subquery, because the index of first steps would be gone through whole if it were known that they are meant
    previous_result = """
        select result::text from <job> where chain_id = $1::bigint and chain_index = (select $2::int - 1)"""
    dependants = _array_of(
        "id, queue, type, attempt",
        f"""(
          select distinct job.id, job.queue, job.type, job.attempt from unnest($1::text::bigint[]) as given (id)
          cross join lateral (select job_id from <edge> where blocker_id = given.id offset 0) as edge
          cross join lateral (select * from <job> where id = edge.job_id offset 0) as job
          where not job.status {_ENDED}) as waiting""",
    )
    complete_by_hand = f"""
        update <job> as job set status = <to:complete>, lease = {NEXT_LEASE}, lease_until = null, held = null,
          result = $3::text::jsonb, finished_at = <now>, error_code = null, error_detail = null, traceback = null
        where id = $2::bigint"""
    skip_steps = f"""
        update <job> as job set status = <to:cancel>, lease = {NEXT_LEASE}, lease_until = null, held = null,
          finished_at = <now>, error_code = $3::text, error_detail = $4::text
        where id = any ($2::text::bigint[])"""
    forgotten_edges = _array_of(
        _EDGE_COLUMNS,
        f"""(
          select * from (
            select edge.blocker_id, edge.of_chain, edge.job_id,
                   head.id is not null and edge.resolved_at is not null as retried,
                   case when head.id is null and edge.on_failure = 'wait' then 'fail' else edge.on_failure end
                     as on_failure,
                   coalesce(case when edge.of_chain <> 0 then {_LAST.format("step.status::text")} end,
                            head.status::text, <failed>) as status,
                   case when head.id is null then $1::text
                        when edge.of_chain <> 0 then {_LAST.format("step.error_code")} else head.error_code end
                     as error_code
            from <edge> as edge
              left join lateral (select * from <job> where id = edge.blocker_id offset 0) as head on true
              cross join lateral (select status from <job> where id = edge.job_id offset 0) as waiting
            where edge.state = 'open' and waiting.status = <blocked> offset 0) as ended
          where status {_ENDED} and (status = <succeeded> or (on_failure <> 'wait' and not retried))
          limit $2::int) as forgotten""",
    )
    # A blocker that is gone can never succeed: who retries by hand does without. One that has failed is waited for
    # until somebody retries it, and that it was resolved before says so; one that runs may just be ending.
    reopen_edges = f"""
        update <edge> as edge set state = 'open', resolved_at = <clock>,
          unsure = case when blocker.status {_ENDED} then 0 else 1 end
        from (select edge.blocker_id, edge.of_chain, edge.job_id,
                     {_STATUS_OF_BLOCKER.format("edge.of_chain")} as status
              from <edge> as edge cross join lateral (
                select * from <job> where id = edge.blocker_id offset 0) as head
              where edge.job_id = any ($1::text::bigint[]) and edge.state = <failed>) as blocker
        where edge.blocker_id = blocker.blocker_id and edge.of_chain = blocker.of_chain
          and edge.job_id = blocker.job_id and blocker.status <> <succeeded>"""
    forgive_edges = """
        update <edge> set state = <succeeded>, resolved_at = <now>
        where job_id = any ($2::text::bigint[]) and state = <failed>"""
    reblock = """
        update <job> as job set status = <to:reblock> where id = any ($1::text::bigint[])
          and exists (select from <edge> as edge where edge.job_id = job.id and edge.state = 'open' offset 0)"""


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(FlowsSql).items() if isinstance(text, str) and not name.startswith("_")}
