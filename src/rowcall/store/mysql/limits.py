"""Texts about limits: which jobs run under which key, which are held, and when the last ones started."""

from __future__ import annotations

from rowcall.store.mysql.words import MOST_SLOTS, TEXT, given, in_two, milliseconds_of, noted, time_of
from rowcall.store.queries.limits import COUNTS, NUMBERS

HELD = "<job> as job <indexed:job_held_by> where status = <pending> and held"
IN_TURN = "order by priority desc, coalesce(turn, id), id"
# The keys of limits share rows of a small table. Never waits; what others have written under a key is seen by the
# statements after this one.
lock_limits = f"""
    select coalesce(json_arrayagg(given.item), '[]') from <texts:1>
    where crc32(given.item) % {MOST_SLOTS} in (
      select slot from <mutex> where slot in (
        select crc32(mine.item) % {MOST_SLOTS} from json_table($1, '$[*]' columns (item {TEXT} path '$')) as mine)
      for update skip locked)"""
key_states = f"""
    select <ms:<now>>, (
      select coalesce(json_arrayagg(json_array(given.`key`, json_array(
        <nested>(select {NUMBERS.format("json_array")} from <quota> as quota where quota.name = given.name)<end_nested>,
        (select count(case when {COUNTS} then 1 end) from <slot> as slot where slot.limit_key = given.`key`),
        (select {milliseconds_of("until")} from <limit_hold> as hold
         where hold.limit_key = given.`key` and until > <now>),
        <nested>(select json_array({milliseconds_of("open_until")}, (
             select count(*) from <slot> as slot straight_join <claim> as claim
               on claim.job_id = slot.job_id and claim.lease = slot.lease
             where slot.limit_key = given.`key` and claim.claimed_at >= breaker.open_until))
           from <breaker> as breaker where breaker.limit_key = given.`key`)<end_nested>))), '[]')
      from {given("key text, name text", 2)})"""
# what is just being freed is skipped, and what is locked here is freed only after our commit
steady_slots = f"""
    select coalesce(json_arrayagg(case when {COUNTS} then limit_key end), '[]') from (
      select limit_key, job_id, lease, worker from <slot> where limit_key in $1 and job_id not in $2
      lock in share mode skip locked) as slot where {COUNTS}"""
# without a lease, only slots that no worker holds
_FREED = f"""{given("job_id bigint, lease bigint", 1)} straight_join <slot> as slot <indexed:slot_by_job>
      on slot.job_id = given.job_id and (slot.lease = given.lease or given.lease is null and slot.worker is null)"""
free_slots = (
    f"""
    select coalesce(json_arrayagg(limit_key), '[]') from (
      select distinct slot.limit_key, slot.job_id, slot.lease from {_FREED} for update) as freed""",
    f"delete slot from {_FREED}",
)
HOPS = f"""
    with recursive hop (held, hops) as (
      select (select held from {HELD} >= {{}} order by held limit 1), 1
      union all
      select (select held from {HELD} > hop.held order by held limit 1), hops + 1
      from hop where hop.held is not null and hops < {{}}
    )"""
held_keys = f"""
    {HOPS.format("$1", "$2")}
    select coalesce(json_arrayagg(json_array(hop.held, (select limits from {HELD} = hop.held {IN_TURN} limit 1))), '[]')
    from hop where hop.held is not null"""
first_held = f"""
    select coalesce(json_arrayagg(json_array(given.item, (
      select limits from {HELD} = given.item {IN_TURN} limit 1))), '[]')
    from <texts:1> where exists (select 1 from {HELD} = given.item)"""
_LAST = "(select coalesce(max(number), 0) from <start> as start where start.limit_key = given.`key`)"
recent_starts = f"""
    select coalesce(json_arrayagg(json_array(given.`key`, {_LAST},
      (select {milliseconds_of("at")} from <start> as start
       where start.limit_key = given.`key` and start.number = {_LAST}),
      <nested>(select coalesce(json_arrayagg(json_array(number, {milliseconds_of("at")})), '[]')
       from <start> as start
       where start.limit_key = given.`key` and number > {_LAST} - rate and number <= {_LAST} - rate + more
      )<end_nested>)), '[]')
    from {given("key text, rate bigint, more bigint", 1)}"""
_HOLDS = "json_table(json_keys($1), '$[*]' columns (id bigint path '$')) as given"
# a job without a ready row is claimed; the rows are locked here, as no other statement may name the ready rows that
# its trigger deletes
hold = in_two(f"""
    update <job> as job join (
      select job.id from {_HOLDS} straight_join <job> as job on job.id = given.id
      where job.status = <pending> and job.held is null
        and exists (select 1 from <claim> as claim where claim.job_id = job.id) = 0 for update skip locked
    ) as mine on job.id = mine.id set job.held = json_unquote(json_extract($1, concat('$."', job.id, '"')))""")
_PAIRS = given("key text, slots int", 1)
_MORE = 4  # candidates: others may have locked the first ones
# The candidates are read without locks: to find the first of many held jobs, the servers would lock all of them.
_NOTE_FREE, _FREE = noted(
    f"""
      select id from (
        select id, slots, row_number() over (partition by held order by place) as free_place from (
          select job.id, job.held, ranked.place, ranked.slots from (
            select job.id, given.`key`, given.slots, row_number() over (
              partition by job.held order by priority desc, coalesce(turn, job.id), job.id) as place
            from {_PAIRS} straight_join <job> as job <indexed:job_held_by> on job.held = given.`key`
            where job.status = <pending>) as ranked
          straight_join <job> as job on job.id = ranked.id
          where ranked.place <= ranked.slots + {_MORE} and job.status = <pending> and job.held = ranked.`key`
          for update skip locked) as locked) as free
      where free_place <= slots""",
    "mine",
)
unhold = _NOTE_FREE, f"update {_FREE} straight_join <job> as job on job.id = mine.id set job.held = null"
drop_starts = f"""
    delete start from {given("key text, number bigint", 1)} straight_join <start> as start
      on start.limit_key = given.`key` and start.number <= given.number"""
prune_starts = in_two("""
    delete whole from <start> as whole join (
      select limit_key, number from <start> where until <= <now> order by until limit $2 for update skip locked
    ) as chosen on chosen.limit_key = whole.limit_key and chosen.number = whole.number""")
counted_starts = f"""
    select coalesce(json_arrayagg(json_array(given.`key`, (
      select coalesce(sum(coalesce(units, 1)), 0) from <start> as start
      where start.limit_key = given.`key` and start.at > <now> - <span:given.span_ms>))), '[]')
    from {given("key text, span_ms bigint", 2)}"""
drop_stale_slots = f"delete slot from <slot> as slot where limit_key in $1 and not {COUNTS}"
set_quota = (
    """
    insert into <quota> (name, set_concurrency, set_rate, set_per_ms, changed_at, changed_by)
    values ($2, $3, $4, $5, <now>, $6)
    on duplicate key update set_concurrency = values(set_concurrency), set_rate = values(set_rate),
      set_per_ms = values(set_per_ms), changed_at = values(changed_at), changed_by = values(changed_by)""",
    "select name from <quota> where name = $2",
)
_IS_LONGER = "values(until) > <limit_hold>.until"
put_holds = f"""
    insert into <limit_hold> (limit_key, held_at, until, job_id, reason)
    select `key`, {time_of("held_at")}, {time_of("until")}, job_id, reason
    from {given("key text, held_at bigint, until bigint, job_id bigint, reason text", 1)}
    on duplicate key update held_at = case when {_IS_LONGER} then values(held_at) else <limit_hold>.held_at end,
      job_id = case when {_IS_LONGER} then values(job_id) else <limit_hold>.job_id end,
      reason = case when {_IS_LONGER} then values(reason) else <limit_hold>.reason end,
      until = greatest(<limit_hold>.until, values(until))"""
prune_outcomes = """
    delete whole from <outcome> as whole join (select id from <outcome> order by id limit $2) as chosen
      on chosen.id = whole.id where whole.at <= <time:1>"""
recent_units = f"""
    select coalesce(json_arrayagg(json_array(given.item, json_array(
      (select coalesce(max(number), 0) from <start> as start where start.limit_key = given.item),
      (select {milliseconds_of("opens_at")} from <opening> as opening where opening.limit_key = given.item),
      <nested>(select json_array(-priority, coalesce(turn, id), id)
                    from {HELD} = concat('limit:', given.item) {IN_TURN} limit 1)<end_nested>,
      <nested>(select coalesce(json_arrayagg(json_array({milliseconds_of("at")}, coalesce(units, 1))), '[]')
                    from <start> as start where start.limit_key = given.item)<end_nested>))), '[]')
    from <texts:1>"""
drop_over_units = in_two("""
    delete whole from <start> as whole join (
      select limit_key, number from <start> where limit_key in $2 and until <= <now> for update skip locked
    ) as chosen on chosen.limit_key = whole.limit_key and chosen.number = whole.number""")
add_units = f"""
    insert into <start> (limit_key, number, at, until, units, job_id, lease)
    select `key`, number, {time_of("given.at")}, {time_of("given.until")}, given.units, given.job_id, given.lease
    from {given("key text, number bigint, at bigint, until bigint, units bigint, job_id bigint, lease bigint", 1)}
    on duplicate key update at = values(at), until = values(until),
      units = coalesce(<start>.units, 0) + values(units), lease = values(lease)"""
