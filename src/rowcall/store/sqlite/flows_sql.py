"""Statements about edges, chains and keys. Those that give many rows give them as one JSON array."""

from __future__ import annotations

from rowcall.store.sqlite.sql import JOB_COLUMNS
from rowcall.store.sqlite.words import next_of, render

_ENDED = "in <finished>"
_WAITING = "status in <waiting>"
_IDS = "(select value from json_each({}))"


def _field(number: int) -> str:
    return f"json_extract(given.value, '$[{number}]')"


_RUN_AT = f"coalesce({_field(5)}, <now> + {_field(6)})"
_ENDED_EDGE = "json_array(edge.blocker_id, edge.of_chain, edge.job_id, edge.on_failure, {0}.status, {0}.error_code)"
_TOUCHED = "json_array(id, queue, type, attempt)"
# the last step says how a chain ended; until then, the first that has not succeeded says where it is
_LAST = "(select {} from <job> as step where step.chain_id = head.id order by step.chain_index desc limit 1)"
_CURRENT = """(select {} from <job> as step where step.chain_id = head.id and step.status <> <succeeded>
               order by step.chain_index limit 1)"""
_CHAIN_STATUS = f"""case when {_LAST.format("step.status")} {_ENDED} then {_LAST.format("step.status")}
               else {_CURRENT.format("step.status")} end"""
_CHAIN = f"""
        select * from (
          select head.id, head.type, head.queue, {_CHAIN_STATUS} as status,
                 {_LAST.format("step.chain_index")} + 1 as length,
                 coalesce({_CURRENT.format("step.id")}, {_LAST.format("step.id")}) as current,
                 head.created_at, {_LAST.format("step.finished_at")} as finished_at,
                 {_LAST.format("step.result")} as result,
                 {_LAST.format("step.error_code")} as error_code, {_LAST.format("step.error_detail")} as error_detail
          from <job> as head
          where head.chain_index = 0 and head.chain_id = head.id and {{}} order by head.id desc
        )"""


class FlowsSql:
    """The statements, rendered for one prefix."""

    def __init__(self, prefix: str) -> None:
        for name, template in statements().items():
            setattr(self, name, render(template, prefix))

    # an INSERT, because sqlite3 begins a transaction before those alone
    begin_writing = "insert into <edge> (blocker_id, job_id, place) select 0, 1, 0 where 0"
    deferring = "pragma defer_foreign_keys"
    defer = "pragma defer_foreign_keys = on"
    defer_no_more = "pragma defer_foreign_keys = off"
    read_something = "select 1 from <edge> limit 1"
    insert_orders = f"""
        insert into <job> (type, queue, payload, status, priority, max_attempts, run_at, created_at, timeout, retry,
                           tags, expires_at, trace_context, key, limits, chain_id, chain_index)
        select {_field(0)}, {_field(1)}, {_field(2)},
               case when {_field(15)} then <to:block> when {_RUN_AT} > <now> then <to:postpone> else <to:enqueue> end,
               {_field(3)}, {_field(4)}, {_RUN_AT}, <now>, {_field(7)}, {_field(8)}, {_field(9)},
               coalesce({_field(10)}, <now> + {_field(11)}), {_field(12)}, {_field(13)}, {_field(14)},
               {_field(16)}, {_field(17)}
        from json_each(?2) as given
        returning id, status, run_at, created_at, expires_at"""
    mark_chains = f"""
        update <job> set chain_id = given.chain_id, chain_index = given.chain_index
        from (select {_field(0)} as id, {_field(1)} as chain_id, {_field(2)} as chain_index
              from json_each(?1) as given) as given
        where <job>.id = given.id"""
    standing = f"""
        select json_group_array(json_array({_field(0)}, {_field(1)}, case when {_field(1)}
            then coalesce({_LAST.format("step.status")}, head.status) else head.status end, head.type, head.created_at))
        from json_each(?1) as given cross join <job> as head on head.id = {_field(0)}"""
    insert_edges = f"""
        insert into <edge> (blocker_id, of_chain, job_id, place, on_failure)
        select {_field(0)}, {_field(1)}, {_field(2)}, {_field(3)}, {_field(4)} from json_each(?1) as given"""
    settle_edges = f"""
        update <edge> set state = ?2, resolved_at = <now>
        where (blocker_id, of_chain, job_id) in (
          select {_field(0)}, {_field(1)}, {_field(2)} from json_each(?3) as given)"""
    ends_of = f"""
        select json_group_array(json_array(blocker_id, of_chain, job_id, on_failure, status, error_code)) from (
          select edge.*, case when edge.of_chain then coalesce({_LAST.format("step.status")}, head.status)
                         else head.status end as status,
                 case when edge.of_chain then {_LAST.format("step.error_code")} else head.error_code end as error_code
          from json_each(?1) as given cross join <edge> as edge
            on edge.blocker_id = {_field(0)} and edge.job_id = {_field(1)} and edge.state = 'open'
          cross join <job> as head on head.id = edge.blocker_id)
        where status {_ENDED}"""
    # the plus keeps SQLite from a partial index where it has ids: it would read all that wait
    end_blocked = f"""
        update <job> set status = given.status, lease = {next_of("lease")}, finished_at = <now>,
          error_code = given.code, error_detail = given.detail
        from (select {_field(0)} as id, {_field(1)} as status, {_field(2)} as code, {_field(3)} as detail
              from json_each(?2) as given) as given
        where <job>.id = given.id and +<job>.status = <blocked>
        returning {_TOUCHED.replace("id,", "<job>.id,")}"""
    unblock = f"""
        update <job> set status = case when run_at > <now> then <to:defer> else <to:unblock> end,
          run_at = max(run_at, <now>), turn = (select seq + 1 from sqlite_sequence where name = '<job>' collate nocase)
        where id in {_IDS.format("?2")} and +status = <blocked>
          and not exists (select 1 from <edge> as edge where edge.job_id = <job>.id and edge.state = 'open')
        returning id"""
    # a turn is a number between the ids of those before it and of those that come later
    pass_turn = "update sqlite_sequence set seq = seq + 1 where name = '<job>' collate nocase"
    ended_edges = f"""
        select json_group_array(json(edge)) from (
          select {_ENDED_EDGE.format("blocker")} as edge
          from json_each(?1) as given cross join <job> as blocker on blocker.id = given.value
            cross join <edge> as edge on edge.blocker_id = blocker.id and edge.of_chain = 0 and edge.state = 'open'
          where blocker.status {_ENDED}
          union all
          select {_ENDED_EDGE.format("step")}
          from json_each(?1) as given cross join <job> as step on step.id = given.value
            cross join <edge> as edge
            on edge.blocker_id = coalesce(step.chain_id, 0) and edge.of_chain = 1 and edge.state = 'open'
          where step.status {_ENDED} and not exists (
            select 1 from <job> as later
            where later.chain_id = step.chain_id and later.chain_index > step.chain_index))"""

    key_holders = f"""
        select json_group_array(json_array(key, id, status)) from (
          select given.value as key, job.id, job.status
          from json_each(?3) as given cross join <job> as job
            on job.id = (select max(id) from <job> as held indexed by <prefix>job_key
                         where held.key is not null and held.type = ?2 and held.key = given.value
                           and (?4 = 'any' or held.status = <running> or held.{_WAITING})
                           and (?5 is null or held.created_at > <now> - ?5)))"""
    replace_waiting = f"""
        update <job> set payload = given.payload, run_at = given.run_at, expires_at = given.expires_at,
          limits = given.limits, held = null, held_until = null,
          status = case when <job>.status = <blocked> then <job>.status when given.run_at > <now> then <to:reschedule>
                   else <to:stage> end
        from (select {_field(0)} as id, {_field(1)} as payload, coalesce({_field(2)}, <now> + {_field(3)}) as run_at,
                     coalesce({_field(4)}, <now> + {_field(5)}) as expires_at, {_field(6)} as limits
              from json_each(?2) as given) as given
        where <job>.id = given.id and <job>.{_WAITING}
        returning <job>.id"""
    get_all = f"select {JOB_COLUMNS} from <job> where id in {_IDS.format('?1')}"

    chain = _CHAIN.format("head.id = ?1")
    chain_steps = f"select {JOB_COLUMNS} from <job> where chain_id = ?1 order by chain_index"
    list_chains = f"""
        {_CHAIN.format("head.id < ?1 and (?2 is null or head.type = ?2)")}
        where ?3 is null or status = ?3 limit ?4"""
    taken_steps = f"""
        select json_group_array(json_array(job.chain_id, job.chain_index)) from json_each(?1) as given
        cross join <job> as job on job.chain_id = {_field(0)} and job.chain_index = {_field(1)}"""
    blocker_results = f"""
        select edge.place, case when edge.of_chain and head.chain_index = 0 then {_CHAIN_STATUS} else head.status end,
               case when edge.of_chain and head.chain_index = 0 then {_LAST.format("step.result")} else head.result end,
               edge.blocker_id, edge.of_chain, edge.state
        from <edge> as edge left join <job> as head on head.id = edge.blocker_id
        where edge.job_id = ?1 order by edge.place"""
    previous_result = "select result from <job> where chain_id = ?1 and chain_index = ?2 - 1"
    dependants = f"""
        select json_group_array(json_array(id, queue, type, attempt)) from (
          select distinct job.id, job.queue, job.type, job.attempt from json_each(?1) as given
          cross join <edge> as edge on edge.blocker_id = given.value
          cross join <job> as job on job.id = edge.job_id
          where not job.status {_ENDED})"""
    complete_by_hand = f"""
        update <job> set status = <to:complete>, lease = {next_of("lease")}, lease_until = null, held = null,
          result = ?3, finished_at = <now>, error_code = null, error_detail = null, traceback = null
        where id = ?2"""
    skip_steps = f"""
        update <job> set status = <to:cancel>, lease = {next_of("lease")}, lease_until = null, held = null,
          finished_at = <now>, error_code = ?3, error_detail = ?4
        where id in {_IDS.format("?2")}"""
    forgotten_edges = f"""
        select json_group_array(json_array(blocker_id, of_chain, job_id, on_failure, status, error_code)) from (
          select * from (
            select edge.blocker_id, edge.of_chain, edge.job_id,
                   head.id is not null and edge.resolved_at is not null as retried,
                   case when head.id is null and edge.on_failure = 'wait' then 'fail' else edge.on_failure end
                     as on_failure,
                   coalesce(case when edge.of_chain then {_LAST.format("step.status")} end, head.status, <failed>)
                     as status,
                   case when head.id is null then ?1 when edge.of_chain then {_LAST.format("step.error_code")}
                        else head.error_code end as error_code
            from <edge> as edge left join <job> as head on head.id = edge.blocker_id
            where edge.state = 'open' and exists (select 1 from <job> where id = edge.job_id and status = <blocked>))
          where status {_ENDED} and (status = <succeeded> or (on_failure <> 'wait' and not retried)) limit ?2)"""
    # A blocker that is gone can never succeed: who retries by hand does without. When it was resolved before is left to
    # say that the wait is for a retry of the blocker.
    reopen_edges = f"""
        update <edge> set state = 'open', resolved_at = <clock>
        where job_id in {_IDS.format("?1")} and state = <failed> and exists (
          select 1 from <job> as head where head.id = blocker_id
            and case when of_chain then coalesce({_LAST.format("step.status")}, head.status) else head.status end
              <> <succeeded>)"""
    forgive_edges = f"""
        update <edge> set state = <succeeded>, resolved_at = <now>
        where job_id in {_IDS.format("?2")} and state = <failed>"""
    reblock = f"""
        update <job> set status = <to:reblock> where id in {_IDS.format("?1")}
          and exists (select 1 from <edge> as edge where edge.job_id = <job>.id and edge.state = 'open')"""


def statements() -> dict[str, str]:
    """The fixed statements, as templates."""
    return {name: text for name, text in vars(FlowsSql).items() if isinstance(text, str) and not name.startswith("_")}
