"""Texts about edges, chains and keys. On a caller's connection every statement has to return rows.

Joins are lateral, behind a fence: the planner has one way only.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from rowcall.store.postgres.jobs import LISTENING
from rowcall.store.postgres.words import ENDED_LEASE, fields, milliseconds_of, milliseconds_or_null, time_of
from rowcall.store.queries.flows import (
    BATCH_OF_NEW,
    FELL,
    INSERTED_FIELDS,
    KEPT_RUN_AT,
    LAST_STEP,
    Edge,
    EndedEdge,
    Replacement,
    UnsureEdge,
)
from rowcall.store.schema import LAST_DEADLINE_MS, READY_COLUMNS, READY_ROW


def _items(names: Sequence[str]) -> SimpleNamespace:
    """Return each field of the array in `given.value`, by its name, as text."""
    return SimpleNamespace(**{name: f"(given.value ->> {position})" for position, name in enumerate(names)})


def _after(ms: str) -> str:
    return f"moment.now + {ms}::bigint * interval '1 millisecond'"


def _rows_of(parameter: str) -> str:
    return f"jsonb_array_elements({parameter}::text::jsonb) as given (value)"


def _array_of(columns: str, source: str) -> str:
    return f"select coalesce(jsonb_agg(jsonb_build_array({columns})), '[]'::jsonb)::text from {source}"


def _is_edge(edge: SimpleNamespace) -> str:
    return f"""edge.blocker_id = {edge.blocker_id}::bigint and edge.of_chain = {edge.of_chain}::int
      and edge.job_id = {edge.job_id}::bigint"""


def _mark_free(edge: SimpleNamespace, unsure: int) -> str:
    """Return the text that marks the edges of parameter 1, except edges that another transaction has locked."""
    return f"""
    update <edge> as edge set unsure = {unsure} from {_rows_of("$1")} cross join lateral (
      select blocker_id, of_chain, job_id from <edge> as edge where {_is_edge(edge)} for update skip locked) as free
    where edge.blocker_id = free.blocker_id and edge.of_chain = free.of_chain and edge.job_id = free.job_id
    returning edge.job_id"""


_MOMENT = "(select <now> as now) as moment"
_GIVEN = "given as materialized (select $2::text::jsonb as document)"
_IS_GIVEN = "job.id = any (array(select key::bigint from jsonb_object_keys((select document from given)) as key))"
_new, _edge = _items(INSERTED_FIELDS), _items(Edge.__struct_fields__)
_step, _blocker = _items(("id", "chain_id", "chain_index")), _items(("id", "of_chain"))
_pair, _place = _items(("blocker_id", "job_id")), _items(("chain_id", "chain_index"))
_ended, _unsure = _items(EndedEdge.__struct_fields__), _items(UnsureEdge.__struct_fields__)
_other = fields(Replacement)
_RUN_AT = f"coalesce({time_of(_new.run_at_ms)}, {_after(_new.delay_ms)})"
_BATCH = BATCH_OF_NEW.format(f"{_new.chain_id}::bigint", f"{_new.chain_index}::int", f"{_new.batch_id}::bigint")
_NEW_RUN_AT = KEPT_RUN_AT.format(
    f"coalesce({time_of(_other.run_at_ms)}, {_after(_other.delay_ms)})",
    job="job",
    least="least",
    keep=f"{_other.keep_run_at}::int",
    latest=f"job.created_at + {_other.longest_delay_ms}::bigint * interval '1 millisecond'",
)
# Where statistics are of a time when no edge was open, the index of open edges looks empty, and is read as a whole.
_OPEN = "state || '' = 'open'"
# So it is with the index of blocked jobs: where ids are given, the primary key is the way.
_BLOCKED = "status || '' = <blocked>"
_EDGE_COLUMNS = "blocker_id, of_chain, job_id, on_failure, status, error_code"
_BLOCKER_STATUS = f"""case when {{}} <> 0 then coalesce({LAST_STEP.format("step.status::text")}, head.status::text)
             else head.status::text end"""

_LAST_DEADLINE = time_of(str(LAST_DEADLINE_MS))

transaction_began = "select now()::text"
isolation = "select current_setting('transaction_isolation')"
insert_each = f"""
    with inserted as (
      insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry,
                         tags, expires_at, trace_context, on_end, key, limits, target, fair, weight, ordered,
                         order_blocks, chain_id, chain_index, batch_id, deadline_at, parent_id, parent_step, detached)
      select {_new.type}, {_new.queue}, {_new.payload}::jsonb,
             case when {_new.blocked}::boolean then <to:block> when {_RUN_AT} > moment.now then <to:postpone>
                  else <to:enqueue> end,
             {_new.priority}::int, {_new.max_attempts}::int, {_RUN_AT}, moment.now, {_new.timeout_seconds}::float8,
             {_new.retry}, {_new.tags}::jsonb,
             coalesce({time_of(_new.expires_at_ms)}, {_after(_new.expires_in_ms)}), {_new.trace_context},
             {_new.on_end}::jsonb, {_new.key}, {_new.limits}, {_new.target}, {_new.fair}, {_new.weight}::int,
             {_new.ordered}, {_new.order_blocks}::int, {_new.chain_id}::bigint, {_new.chain_index}::int,
             {_BATCH}, {_RUN_AT} + {_new.deadline_ms}::bigint * interval '1 millisecond',
             {_new.parent_id}::bigint, {_new.parent_step}::int, {_new.detached}::int
      from {_MOMENT}, jsonb_array_elements($2::text::jsonb) with ordinality as given (value, position)
      order by given.position
      returning id, status, {milliseconds_of("run_at")} as run_at, {milliseconds_of("created_at")} as created_at,
                {milliseconds_of("expires_at")} as expires_at, batch_id)
    select id, status::text, run_at, created_at, expires_at, batch_id, {LISTENING} from inserted"""
mark_chains = f"""
    update <job> as job set chain_id = {_step.chain_id}::bigint, chain_index = {_step.chain_index}::int
    from {_rows_of("$1")} where job.id = {_step.id}::bigint
    returning job.id"""
standing = _array_of(
    f"head.id, given.value -> 1, {_BLOCKER_STATUS.format(f'{_blocker.of_chain}::int')}, head.type,"
    f" {milliseconds_or_null('head.created_at')}, head.trace_context",
    f"{_rows_of('$1')} cross join lateral (select * from <job> where id = {_blocker.id}::bigint offset 0) as head",
)
insert_edges = f"""
    insert into <edge> (blocker_id, of_chain, job_id, position, on_failure, unsure)
    select {_edge.blocker_id}::bigint, {_edge.of_chain}::int, {_edge.job_id}::bigint, {_edge.position}::int,
           {_edge.on_failure}, {_edge.unsure}::int
    from {_rows_of("$1")}
    returning job_id"""
settle_edges = f"""
    update <edge> as edge set state = $2::text, resolved_at = <now>, unsure = 0 from {_rows_of("$3")}
    where {_is_edge(_ended)}
    returning edge.job_id"""
ends_of = _array_of(
    _EDGE_COLUMNS,
    f"""(
      select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure,
             {_BLOCKER_STATUS.format("edge.of_chain")} as status,
             case when edge.of_chain <> 0 then {LAST_STEP.format("step.error_code")} else head.error_code end
               as error_code
      from {_rows_of("$1")} cross join lateral (
        select * from <edge> where blocker_id = {_pair.blocker_id}::bigint and job_id = {_pair.job_id}::bigint
          and {_OPEN} offset 0) as edge
      cross join lateral (select * from <job> where id = edge.blocker_id offset 0) as head) as ended
    where status in <finished>""",
)
lock_blocked = f"""
    select mine.id from <ids:1> cross join lateral (
      select id from <job> where id = given.id and {_BLOCKED} for update) as mine"""
lock_free_blocked = lock_blocked.replace("for update", "for update skip locked")
still_blocked = f"select id from <job> where id <in_ids:1> and {_BLOCKED}"
# A turn is a number between the ids of earlier and of later jobs. The ready rows are written here, as by a settle: with
# the trigger, chains took a fifth longer. It still sets the turns of fair jobs.
unblock = f"""
    with unblocked as (
      update <job> as job set status = case when job.run_at > moment.now then <to:defer> else <to:unblock> end,
        run_at = greatest(job.run_at, moment.now),
        deadline_at = least(job.deadline_at, {_LAST_DEADLINE}) + greatest(moment.now - job.run_at, interval '0'),
        turn = case when job.fair is null
          then (select nextval(pg_get_serial_sequence(<named:job>, 'id'))) end,
        lease = case when job.fair is null then {ENDED_LEASE} else job.lease end
      from {_MOMENT}
      where job.id <in_ids:2> and job.{_BLOCKED}
        and not exists (select from <edge> as edge where edge.job_id = job.id and edge.state = 'open' offset 0)
      returning job.id, status, held, fair, queue, type, unfit, priority, turn, run_at, job.created_at, attempt,
        expires_at, lease
    ), ready as (
      insert into <ready> {READY_COLUMNS} select {READY_ROW.format("unblocked")} from unblocked
      where status = <pending> and held is null and fair is null on conflict do nothing)
    select id from unblocked"""
ended_edges = _array_of(
    _EDGE_COLUMNS,
    f"""(
      select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, blocker.status, blocker.error_code
      from <ids:1> cross join lateral (
        select * from <edge> where blocker_id = given.id and of_chain = 0 and {_OPEN} offset 0) as edge
      cross join lateral (select status, error_code from <job> where id = given.id offset 0) as blocker
      where blocker.status in <finished>
      union all
      select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, step.status, step.error_code
      from <ids:1> cross join lateral (
        select chain_id, chain_index, status, error_code from <job> where id = given.id offset 0) as step
      cross join lateral (
        select * from <edge> where blocker_id = step.chain_id and of_chain = 1 and {_OPEN} offset 0) as edge
      where step.chain_id is not null and step.status in <finished> and not exists (
        select from <job> as later
        where later.chain_id = step.chain_id and later.chain_index > step.chain_index offset 0)
    ) as ended""",
)
dependants = """
    select distinct job.id, job.queue::text, job.type::text, job.attempt from <ids:1>
    cross join lateral (select job_id from <edge> where blocker_id = given.id offset 0) as edge
    cross join lateral (select * from <job> where id = edge.job_id offset 0) as job
    where job.status not in <finished>"""
fallen = f"""
    select distinct job.id, edge.blocker_id, edge.of_chain from <ids:1> cross join lateral (
      select job_id, blocker_id, of_chain from <edge> where blocker_id = given.id and state = <failed> offset 0) as edge
    cross join lateral (select * from <job> where id = edge.job_id offset 0) as job where {FELL}"""

doubt_edges = f"""
    update <edge> as edge set unsure = 1
    from (values ($1::bigint, 0), ((select chain_id from <job> where id = $1::bigint), 1)) as given (id, of_chain)
    where edge.blocker_id = given.id and edge.of_chain = given.of_chain and {_OPEN}
    returning edge.job_id"""
doubt_locked = _mark_free(_ended, 1)
unsure_edges = """
    select blocker_id, of_chain, job_id, on_failure from <edge> where unsure <> 0 order by random() limit $1::int"""
last_steps = """
    select given.id, last.id from <ids:1> cross join lateral (
      select id from <job> where chain_id = given.id order by chain_index desc limit 1) as last"""
lock_blockers = """
    select mine.id, mine.status::text, mine.error_code from <ids:1> cross join lateral (
      select id, status, error_code from <job> where id = given.id for share skip locked) as mine"""
existing_blockers = "select id from <job> where id <in_ids:1>"
trust_edges = _mark_free(_unsure, 0)
forgotten_edges = _array_of(
    _EDGE_COLUMNS,
    f"""(
      select * from (
        select edge.blocker_id, edge.of_chain, edge.job_id,
               head.id is not null and edge.resolved_at is not null as retried,
               case when head.id is null and edge.on_failure = 'wait' then 'fail' else edge.on_failure end
                 as on_failure,
               coalesce(case when edge.of_chain <> 0 then {LAST_STEP.format("step.status::text")} end,
                        head.status::text, <failed>) as status,
               case when head.id is null then $1::text
                    when edge.of_chain <> 0 then {LAST_STEP.format("step.error_code")} else head.error_code end
                 as error_code
        from <edge> as edge
          left join lateral (select * from <job> where id = edge.blocker_id offset 0) as head on true
          cross join lateral (select status from <job> where id = edge.job_id offset 0) as waiting
        where edge.state = 'open' and waiting.status = <blocked> offset 0) as ended
      where status in <finished> and (status = <succeeded> or (on_failure <> 'wait' and not retried))
      limit $2::int) as forgotten""",
)
# A deleted blocker can never succeed: a retry by hand does without it. One that has failed is waited for until it is
# retried, and that the edge was resolved before says so; one that runs may just be ending.
reopen_edges = f"""
    update <edge> as edge set state = 'open', resolved_at = <clock>,
      unsure = case when blocker.status in <finished> then 0 else 1 end
    from (select edge.blocker_id, edge.of_chain, edge.job_id,
                 {_BLOCKER_STATUS.format("edge.of_chain")} as status
          from <edge> as edge cross join lateral (
            select * from <job> where id = edge.blocker_id offset 0) as head
          where edge.job_id <in_ids:1> and edge.state = <failed>) as blocker
    where edge.blocker_id = blocker.blocker_id and edge.of_chain = blocker.of_chain
      and edge.job_id = blocker.job_id and blocker.status <> <succeeded>"""
forgive_edges = """
    update <edge> set state = <succeeded>, resolved_at = <now>, unsure = 0
    where job_id <in_ids:2> and (state = <failed> or state = 'open' and not exists (
      select 1 from <job> as blocker where blocker.id = blocker_id <as_written>))"""

# in the order of the numbers, so that two transactions cannot deadlock
lock_keys = """
    select pg_advisory_xact_lock(hash) from (
      select distinct hashtextextended(value, hashtextextended($1::text, 6)) as hash
      from jsonb_array_elements_text($2::text::jsonb) order by 1) as hashes"""
key_holders = _array_of(
    "given.key, holder.id",
    """jsonb_array_elements_text($3::text::jsonb) as given (key) cross join lateral (
      select id from <job> as job
      where key is not null and type = $2::text and key = given.key
        and ($4::text = 'any' or status in <unfinished> and ($4::text = 'active' or not exists (
          select from <claim> as claim where claim.job_id = job.id offset 0)))
        and ($5::bigint is null or created_at > (select <now>) - $5::bigint * interval '1 millisecond')
      order by type desc, key desc, id desc limit 1) as holder""",
)
replace_waiting = f"""
    with {_GIVEN}
    update <job> as job set payload = {_other.payload}::jsonb, run_at = {_NEW_RUN_AT}, limits = {_other.limits},
      target = {_other.target},
      fair = {_other.fair}, weight = ({_other.weight})::int, ordered = {_other.ordered},
      order_blocks = ({_other.order_blocks})::int,
      expires_at = coalesce({time_of(_other.expires_at_ms)}, {_after(_other.expires_in_ms)}),
      deadline_at = {_NEW_RUN_AT} + {_other.deadline_ms}::bigint * interval '1 millisecond',
      held = null, unfit = null,
      status = case when job.status = <blocked> then job.status
                    when {_NEW_RUN_AT} > moment.now then <to:reschedule> else <to:stage> end
    from {_MOMENT} where {_IS_GIVEN}
    returning job.id, job.lease"""
taken_steps = f"""
    select step.chain_id, step.chain_index from {_rows_of("$1")} cross join lateral (
      select chain_id, chain_index from <job>
      where chain_id = {_place.chain_id}::bigint and chain_index = {_place.chain_index}::int offset 0) as step"""

chain_steps = """
    select <job_columns> from (select id from <job> where chain_id = $1::bigint) as step
      cross join lateral (select * from <prefix>jobs where id = step.id offset 0) as job
    order by chain_index"""
