"""Texts about edges, chains and keys. Those of a worker's round return one row with a JSON array in it."""

from __future__ import annotations

from rowcall.store.queries.flows import (
    BATCH_OF_NEW,
    FELL,
    INSERTED_FIELDS,
    KEPT_RUN_AT,
    LAST_STEP,
    OF_EACH_CHILD,
    SHARED_FIELDS,
    Edge,
    EndedEdge,
    Replacement,
)
from rowcall.store.sqlite.words import given

_RUN_AT = "coalesce(given.run_at_ms, <now> + given.delay_ms)"
_NEW_RUN_AT = KEPT_RUN_AT.format(
    _RUN_AT, job="<job>", least="min", keep="given.keep_run_at", latest="<job>.created_at + given.longest_delay_ms"
)
_ENDED_EDGE = "json_array(edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, {0}.status, {0}.error_code)"
_EDGE_COLUMNS = "json_array(blocker_id, of_chain, job_id, on_failure, status, error_code)"
_BLOCKER_STATUS = f"case when {{}} then coalesce({LAST_STEP.format('step.status')}, head.status) else head.status end"

# an INSERT, because sqlite3 begins a transaction before those alone
begin_writing = "insert into <edge> (blocker_id, job_id, position) select 0, 1, 0 where 0"
deferring = "pragma defer_foreign_keys"
defer = "pragma defer_foreign_keys = on"
defer_no_more = "pragma defer_foreign_keys = off"
read_something = "select 1 from <edge> limit 1"
_INSERT = f"""
    insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry,
                       tags, expires_at, trace_context, on_end, key, limits, target, fair, weight, ordered,
                       order_blocks, chain_id, chain_index, batch_id, deadline_at, parent_id, parent_step, detached)
    select type, queue, payload,
           case when blocked then <to:block> when {_RUN_AT} > <now> then <to:postpone> else <to:enqueue> end,
           priority, max_attempts, {_RUN_AT}, <now>, timeout_seconds, retry, tags,
           coalesce(expires_at_ms, <now> + expires_in_ms), trace_context, on_end, key, limits, target, fair, weight,
           ordered, order_blocks, chain_id, chain_index,
           {BATCH_OF_NEW.format("given.chain_id", "given.chain_index", "given.batch_id")},
           {_RUN_AT} + deadline_ms, parent_id, parent_step, detached
    from {{}}
    returning id, status, run_at, created_at, expires_at, batch_id"""
insert_each = _INSERT.format(given(INSERTED_FIELDS, "$2"))
_of_each = ", ".join(f"json_extract(value, '$[{index}]') as {name}" for index, name in enumerate(OF_EACH_CHILD))
insert_children = _INSERT.format(
    f"(select given.*, {_of_each} from {given(SHARED_FIELDS, '$2')} cross join json_each($3)) as given"
)
mark_chains = f"""
    update <job> set chain_id = given.chain_id, chain_index = given.chain_index
    from {given(("id", "chain_id", "chain_index"), "$1")}
    where <job>.id = given.id"""
standing = f"""
    select json_group_array(json_array(given.id, given.of_chain, {_BLOCKER_STATUS.format("given.of_chain")}, head.type,
                                       head.created_at, head.trace_context))
    from {given(("id", "of_chain"), "$1")} cross join <job> as head on head.id = given.id"""
insert_edges = f"""
    insert into <edge> (blocker_id, of_chain, job_id, position, on_failure)
    select blocker_id, of_chain, job_id, position, on_failure from {given(Edge, "$1")}"""
settle_edges = f"""
    update <edge> set state = $2, resolved_at = <now>
    where (blocker_id, of_chain, job_id) in (
      select given.blocker_id, given.of_chain, given.job_id from {given(EndedEdge, "$3")})"""
ends_of = f"""
    select json_group_array({_EDGE_COLUMNS}) from (
      select edge.*, {_BLOCKER_STATUS.format("edge.of_chain")} as status,
             case when edge.of_chain then {LAST_STEP.format("step.error_code")} else head.error_code end as error_code
      from {given(("blocker_id", "job_id"), "$1")} cross join <edge> as edge
        on edge.blocker_id = given.blocker_id and edge.job_id = given.job_id and edge.state = 'open'
      cross join <job> as head on head.id = edge.blocker_id)
    where status in <finished>"""
# the plus keeps SQLite from a partial index where it has ids: it would read all waiting jobs
unblock = """
    update <job> set status = case when run_at > <now> then <to:defer> else <to:unblock> end,
      run_at = max(run_at, <now>), deadline_at = deadline_at + max(0, <now> - run_at), turn = case when fair is null
        then (select seq + 1 from sqlite_sequence where name = '<job>' collate nocase) end
    where id <in_ids:2> and +status = <blocked>
      and not exists (select 1 from <edge> as edge where edge.job_id = <job>.id and edge.state = 'open')
    returning id"""
# a turn is a number between the ids of earlier and of later jobs
pass_turn = "update sqlite_sequence set seq = seq + 1 where name = '<job>' collate nocase"
ended_edges = f"""
    select json_group_array(json(edge)) from (
      select {_ENDED_EDGE.format("blocker")} as edge
      from <ids:1> cross join <job> as blocker on blocker.id = given.id
        cross join <edge> as edge on edge.blocker_id = blocker.id and edge.of_chain = 0 and edge.state = 'open'
      where blocker.status in <finished>
      union all
      select {_ENDED_EDGE.format("step")}
      from <ids:1> cross join <job> as step on step.id = given.id
        cross join <edge> as edge
        on edge.blocker_id = coalesce(step.chain_id, 0) and edge.of_chain = 1 and edge.state = 'open'
      where step.status in <finished> and not exists (
        select 1 from <job> as later
        where later.chain_id = step.chain_id and later.chain_index > step.chain_index))"""
dependants = """
    select distinct job.id, job.queue, job.type, job.attempt from <ids:1>
    cross join <edge> as edge on edge.blocker_id = given.id
    cross join <job> as job on job.id = edge.job_id
    where job.status not in <finished>"""
fallen = f"""
    select distinct job.id, edge.blocker_id, edge.of_chain
    from <ids:1> cross join <edge> as edge on edge.blocker_id = given.id
    cross join <job> as job on job.id = edge.job_id
    where edge.state = <failed> and {FELL}"""
forgotten_edges = f"""
    select json_group_array({_EDGE_COLUMNS}) from (
      select * from (
        select edge.blocker_id, edge.of_chain, edge.job_id,
               head.id is not null and edge.resolved_at is not null as retried,
               case when head.id is null and edge.on_failure = 'wait' then 'fail' else edge.on_failure end
                 as on_failure,
               coalesce(case when edge.of_chain then {LAST_STEP.format("step.status")} end, head.status, <failed>)
                 as status,
               case when head.id is null then $1 when edge.of_chain then {LAST_STEP.format("step.error_code")}
                    else head.error_code end as error_code
        from <edge> as edge left join <job> as head on head.id = edge.blocker_id
        where edge.state = 'open' and exists (select 1 from <job> where id = edge.job_id and status = <blocked>))
      where status in <finished> and (status = <succeeded> or (on_failure <> 'wait' and not retried)) limit $2)"""
# A deleted blocker can never succeed: a retry by hand does without it. That an edge was resolved before says that it
# waits for a retry of its blocker.
reopen_edges = f"""
    update <edge> set state = 'open', resolved_at = <clock>
    where job_id <in_ids:1> and state = <failed> and exists (
      select 1 from <job> as head where head.id = blocker_id and {_BLOCKER_STATUS.format("of_chain")} <> <succeeded>)"""
forgive_edges = """
    update <edge> set state = <succeeded>, resolved_at = <now>
    where job_id <in_ids:2> and (state = <failed> or state = 'open' and not exists (
      select 1 from <job> as blocker where blocker.id = blocker_id))"""

key_holders = """
    select json_group_array(json_array(key, id)) from (
      select given.value as key, job.id
      from json_each($3) as given cross join <job> as job
        on job.id = (select max(id) from <job> as held indexed by <prefix>job_key
                     where held.key is not null and held.type = $2 and held.key = given.value
                       and ($4 = 'any' or held.status in <unfinished> and ($4 = 'active' or not exists (
                         select 1 from <claim> where job_id = held.id)))
                       and ($5 is null or held.created_at > <now> - $5)))"""
replace_waiting = f"""
    update <job> set payload = given.payload, run_at = {_NEW_RUN_AT}, limits = given.limits, fair = given.fair,
      weight = given.weight, ordered = given.ordered, order_blocks = given.order_blocks,
      target = given.target, deadline_at = {_NEW_RUN_AT} + given.deadline_ms,
      expires_at = coalesce(given.expires_at_ms, <now> + given.expires_in_ms), held = null, unfit = null,
      status = case when <job>.status = <blocked> then <job>.status when {_NEW_RUN_AT} > <now> then <to:reschedule>
               else <to:stage> end
    from {given(Replacement, "$2")}
    where <job>.id = given.job_id
    returning <job>.id, <job>.lease"""
taken_steps = f"""
    select job.chain_id, job.chain_index from {given(("chain_id", "chain_index"), "$1")}
    cross join <job> as job on job.chain_id = given.chain_id and job.chain_index = given.chain_index"""
