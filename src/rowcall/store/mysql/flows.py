"""Texts about edges, chains and keys."""

from __future__ import annotations

from rowcall.store.mysql.words import MOST_SLOTS, adapted, given, inserted, milliseconds_of, noted, time_of
from rowcall.store.queries.flows import (
    BATCH_OF_NEW,
    FELL,
    INSERTED_FIELDS,
    KEPT_RUN_AT,
    LAST_STEP,
    LIST_CHAINS,
    Edge,
    EndedEdge,
    Replacement,
    UnsureEdge,
)
from rowcall.store.schema import LAST_DEADLINE_MS

_BIG = ("run_at_ms", "delay_ms", "expires_at_ms", "expires_in_ms", "deadline_ms", "parent_id", "chain_id", "batch_id")
_WHOLE = ("blocked", "priority", "max_attempts", "weight", "order_blocks", "chain_index", "parent_step", "detached")


def _new(name: str) -> str:
    kind = "bigint" if name in (*_BIG, *_WHOLE) else "float8" if name == "timeout_seconds" else "text"
    return f"{name} {kind}"


_NEW = given(", ".join(map(_new, INSERTED_FIELDS)), 2).replace("columns (", "columns (place for ordinality, ")
_RUN_AT = f"coalesce({time_of('given.run_at_ms')}, <now> + <span:given.delay_ms>)"
_EXPIRES_AT = f"coalesce({time_of('given.expires_at_ms')}, <now> + <span:given.expires_in_ms>)"
_NEW_RUN_AT = KEPT_RUN_AT.format(
    _RUN_AT,
    job="job",
    least="least",
    keep="given.keep_run_at",
    latest="job.created_at + <span:given.longest_delay_ms>",
)
_IS_EDGE = "edge.blocker_id = given.blocker_id and edge.of_chain = given.of_chain and edge.job_id = given.job_id"
_EDGE_COLUMNS = "blocker_id, of_chain, job_id, on_failure, status, error_code"
_BLOCKER_STATUS = f"""case when {{}} <> 0 then coalesce({LAST_STEP.format("step.status")}, head.status)
             else head.status end"""


def _array_of(columns: str, source: str) -> str:
    return f"select coalesce(json_arrayagg(json_array({columns})), '[]') from {source}"


def _mark_free(edges: str, unsure: int) -> tuple[str, str, str]:
    """Return the texts that mark the edges of parameter 1, except edges that another transaction has locked."""
    columns = "edge.blocker_id, edge.of_chain, edge.job_id"
    note, mine = noted(
        f"select {columns} from {edges} straight_join <edge> as edge on {_IS_EDGE} for update skip locked", "given"
    )
    mark = f"update {mine} straight_join <edge> as edge on {_IS_EDGE} set edge.unsure = {unsure}"
    return note, f"select job_id from {mine}", mark


# the order within a derived table is lost
list_chains = str(adapted(str(LIST_CHAINS.text))).replace("limit <int:4>", "order by id desc limit <int:4>")
# the level of one transaction alone cannot be asked
isolation = "select 'unknown'"
insert_each = inserted(f"""
    insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry,
                       tags, expires_at, trace_context, on_end, `key`, limits, target, fair, weight, ordered,
                       order_blocks, chain_id, chain_index, batch_id, deadline_at, parent_id, parent_step, detached)
    select type, queue, payload,
           case when blocked <> 0 then <to:block> when {_RUN_AT} > <now> then <to:postpone> else <to:enqueue> end,
           priority, max_attempts, {_RUN_AT}, <now>, timeout_seconds, retry, tags, {_EXPIRES_AT}, trace_context, on_end,
           `key`, limits, target, fair, weight, ordered, order_blocks, chain_id, chain_index,
           {BATCH_OF_NEW.format("given.chain_id", "given.chain_index", "given.batch_id")},
           {_RUN_AT} + <span:given.deadline_ms>, given.parent_id, given.parent_step, given.detached
    from {_NEW} order by place
    returning id, status, <ms:run_at>, <ms:created_at>, <ms:expires_at>, batch_id, 0""")
mark_chains = f"""
    update {given("id bigint, chain_id bigint, chain_index int", 1)} straight_join <job> as job on job.id = given.id
    set job.chain_id = given.chain_id, job.chain_index = given.chain_index"""
standing = _array_of(
    f"head.id, given.of_chain, {_BLOCKER_STATUS.format('given.of_chain')}, head.type,"
    f" {milliseconds_of('head.created_at')}, head.trace_context",
    f"{given('id bigint, of_chain int', 1)} straight_join <job> as head on head.id = given.id",
)
insert_edges = f"""
    insert into <edge> (blocker_id, of_chain, job_id, position, on_failure, unsure)
    select blocker_id, of_chain, job_id, position, on_failure, unsure from {given(Edge, 1)}"""
settle_edges = f"""
    update {given(EndedEdge, 3)} straight_join <edge> as edge on {_IS_EDGE}
    set edge.state = $2, edge.resolved_at = <now>, edge.unsure = 0"""
ends_of = _array_of(
    _EDGE_COLUMNS,
    f"""(
      select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure,
             {_BLOCKER_STATUS.format("edge.of_chain")} as status,
             case when edge.of_chain <> 0 then {LAST_STEP.format("step.error_code")} else head.error_code end
               as error_code
      from {given("blocker_id bigint, job_id bigint", 1)} straight_join <edge> as edge
        on edge.blocker_id = given.blocker_id and edge.job_id = given.job_id and edge.state = 'open'
      straight_join <job> as head on head.id = edge.blocker_id) as ended
    where status in <finished>""",
)
lock_blocked = "select id from <job> where id in $1 and status = <blocked> order by id for update"
lock_free_blocked = f"{lock_blocked} skip locked"
still_blocked = "select id from <job> where id in $1 and status = <blocked>"
# A turn is an id that no job has: that of a job which is written and taken back, as ids are never given twice. Jobs
# that are unblocked at once keep their order by their ids. The trigger writes the ready rows.
_UNBLOCKED = """job.status = <blocked>
      and not exists (select 1 from <edge> as edge where edge.job_id = job.id and edge.state = 'open')"""
unblock = (
    f"select job.id from <job> as job where job.id in $2 and {_UNBLOCKED} order by job.id for update",
    "savepoint rowcall_turn",
    "insert into <job> (type, payload, status) values ('turn', '{}', <blocked>)",
    "rollback to savepoint rowcall_turn",
    f"""
    update <job> as job
    set job.status = case when job.run_at > <now> then <to:defer> else <to:unblock> end,
      job.deadline_at = least(job.deadline_at, {time_of(str(LAST_DEADLINE_MS))})
        + interval greatest(timestampdiff(microsecond, job.run_at, <now>), 0) microsecond,
      job.run_at = greatest(job.run_at, <now>), job.turn = case when job.fair is null then last_insert_id() end
    where job.id in $2 and {_UNBLOCKED}""",
)
ended_edges = _array_of(
    _EDGE_COLUMNS,
    """(
      select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, blocker.status, blocker.error_code
      from <ids:1> straight_join <edge> as edge
        on edge.blocker_id = given.id and edge.of_chain = 0 and edge.state = 'open'
      straight_join <job> as blocker on blocker.id = given.id
      where blocker.status in <finished>
      union all
      select edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, step.status, step.error_code
      from <ids:1> straight_join <job> as step on step.id = given.id
      straight_join <edge> as edge
        on edge.blocker_id = step.chain_id and edge.of_chain = 1 and edge.state = 'open'
      where step.chain_id is not null and step.status in <finished> and not exists (
        select 1 from <job> as later
        where later.chain_id = step.chain_id and later.chain_index > step.chain_index)) as ended""",
)
dependants = """
    select distinct job.id, job.queue, job.type, job.attempt
    from <ids:1> straight_join <edge> as edge on edge.blocker_id = given.id
    straight_join <job> as job on job.id = edge.job_id
    where job.status not in <finished>"""
_OF_ENDING = """edge.state = 'open' and (edge.blocker_id = $1 and edge.of_chain = 0 or edge.of_chain = 1
      and edge.blocker_id = (select job.chain_id from <job> as job where job.id = $1))"""
doubt_edges = (
    f"select edge.job_id from <edge> as edge where {_OF_ENDING} for update",
    f"update <edge> as edge set unsure = 1 where {_OF_ENDING}",
)
doubt_locked = _mark_free(given(EndedEdge, 1), 1)
unsure_edges = """
    select blocker_id, of_chain, job_id, on_failure from <edge> where unsure <> 0 order by rand() limit $1"""
last_steps = """
    select given.id, (select step.id from <job> as step where step.chain_id = given.id
                      order by step.chain_index desc limit 1) as last
    from <ids:1> having last is not null"""
lock_blockers = "select id, status, error_code from <job> where id in $1 order by id lock in share mode skip locked"
existing_blockers = "select id from <job> where id in $1"
trust_edges = _mark_free(given(UnsureEdge, 1), 0)
forgotten_edges = _array_of(
    _EDGE_COLUMNS,
    f"""(
      select * from (
        select edge.blocker_id, edge.of_chain, edge.job_id,
               head.id is not null and edge.resolved_at is not null as retried,
               case when head.id is null and edge.on_failure = 'wait' then 'fail' else edge.on_failure end
                 as on_failure,
               coalesce(case when edge.of_chain <> 0 then {LAST_STEP.format("step.status")} end, head.status, <failed>)
                 as status,
               case when head.id is null then $1
                    when edge.of_chain <> 0 then {LAST_STEP.format("step.error_code")} else head.error_code end
                 as error_code
        from <edge> as edge left join <job> as head on head.id = edge.blocker_id
        where edge.state = 'open'
          and exists (select 1 from <job> as waiting where waiting.id = edge.job_id and waiting.status = <blocked>)
      ) as ended
      where status in <finished> and (status = <succeeded> or (on_failure <> 'wait' and not retried))
      limit $2) as forgotten""",
)
# A deleted blocker can never succeed: a retry by hand does without it. One that has failed is waited for until it is
# retried, and that the edge was resolved before says so; one that runs may just be ending.
reopen_edges = f"""
    update (
      select edge.blocker_id, edge.of_chain, edge.job_id, {_BLOCKER_STATUS.format("edge.of_chain")} as status
      from <edge> as edge straight_join <job> as head on head.id = edge.blocker_id
      where edge.job_id in $1 and edge.state = <failed>) as given straight_join <edge> as edge on {_IS_EDGE}
    set edge.state = 'open', edge.resolved_at = <clock>,
      edge.unsure = case when given.status in <finished> then 0 else 1 end
    where given.status <> <succeeded>"""
forgive_edges = """
    update <edge> as edge set state = <succeeded>, resolved_at = <now>, unsure = 0
    where job_id in $2 and (state = <failed> or state = 'open' and not exists (
      select 1 from <job> as blocker where blocker.id = edge.blocker_id))"""

# all keys share the rows of a small table, locked in their order, so that two transactions cannot deadlock
lock_keys = f"""
    select slot from <mutex> where slot in (
      select crc32(concat($1, ':', given.item)) % {MOST_SLOTS}
      from <texts:2>)
    order by slot for update"""
key_holders = _array_of(
    "item, id",
    """(
      select given.item, (
        select max(job.id) from <job> as job
        where job.type = $2 and job.`key` = given.item
          and ($4 = 'any' or job.status in <unfinished> and ($4 = 'active' or not exists (
            select 1 from <claim> as claim where claim.job_id = job.id)))
          and ($5 is null or job.created_at > <now> - <interval:5>)) as id
      from <texts:3>) as holders where id is not null""",
)
replace_waiting = (
    f"""
    update {given(Replacement, 2, "$.*")} straight_join <job> as job on job.id = given.job_id
    set job.payload = given.payload, job.run_at = {_NEW_RUN_AT},
      job.deadline_at = {_NEW_RUN_AT} + <span:given.deadline_ms>, job.limits = given.limits, job.target = given.target,
      job.fair = given.fair, job.weight = given.weight, job.ordered = given.ordered,
      job.order_blocks = given.order_blocks, job.expires_at = {_EXPIRES_AT}, job.held = null, job.unfit = null,
      job.status = case when job.status = <blocked> then job.status
                        when {_NEW_RUN_AT} > <now> then <to:reschedule> else <to:stage> end""",
    """select job.id, job.lease from json_table(json_keys($2), '$[*]' columns (id bigint path '$')) as given
    straight_join <job> as job on job.id = given.id""",
)
taken_steps = f"""
    select step.chain_id, step.chain_index from {given("chain_id bigint, chain_index int", 1)}
    straight_join <job> as step on step.chain_id = given.chain_id and step.chain_index = given.chain_index"""
fallen = f"""
    select distinct job.id, edge.blocker_id, edge.of_chain
    from <ids:1> straight_join <edge> as edge on edge.blocker_id = given.id
    straight_join <job> as job on job.id = edge.job_id
    where edge.state = <failed> and {FELL}"""
