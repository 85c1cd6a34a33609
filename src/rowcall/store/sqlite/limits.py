"""Texts about limits: which jobs run under which key, which are held, and when the last ones started."""

from __future__ import annotations

from rowcall.store.queries.limits import COUNTS, NUMBERS
from rowcall.store.sqlite.words import given

HELD = "<job> indexed by <prefix>job_held_by where status = <pending> and held"
# Leases by job id; null means slots that no worker holds. Only these need the table: all others are in the index.
_OF_ATTEMPTS = """json_each($1) as given cross join <slot> as slot indexed by <prefix>slot_by_job
        where slot.job_id = cast(given.key as integer) and case
          when given.value is not null then slot.lease = given.value
          else (select worker is null from <slot> as whole where whole.limit_key = slot.limit_key
                and whole.job_id = slot.job_id and whole.lease = slot.lease) end"""
_IN_TURN = "order by priority desc, coalesce(turn, id), id"


key_states = f"""
    select <now>, (
      select json_group_array(json_array(given.key, json_array(
        json((select {NUMBERS.format("json_array")} from <quota> as quota where quota.name = given.name)),
        (select count(*) from <slot> as slot where slot.limit_key = given.key and {COUNTS}),
        (select until from <limit_hold> as hold where hold.limit_key = given.key and until > <now>),
        json((select json_array(open_until,
          (select count(*) from <slot> as slot cross join <claim> as claim
             on claim.job_id = slot.job_id and claim.lease = slot.lease
           where slot.limit_key = given.key and claim.claimed_at >= breaker.open_until))
          from <breaker> as breaker where breaker.limit_key = given.key)))))
      from {given(("key", "name"), "$2")})"""
slots_of = f"select json_group_array(slot.limit_key) from {_OF_ATTEMPTS}"
delete_slots = f"""
    delete from <slot> where (limit_key, job_id, lease) in (
      select slot.limit_key, slot.job_id, slot.lease from {_OF_ATTEMPTS})"""
hold = """
    update <job> set held = given.value from json_each($1) as given
    where <job>.id = cast(given.key as integer) and +<job>.status = <pending> and +<job>.held is null"""
unhold_first = f"""
    update <job> set held = null where id in (
      select (select id from {HELD} = given.value {_IN_TURN} limit 1) from json_each($1) as given)"""
unhold_some = f"""
    update <job> set held = null where id in (select id from {HELD} = $1 {_IN_TURN} limit $2)"""
held_keys = f"""
    with recursive hop (held, hops) as (
      select (select held from {HELD} >= $1 order by held limit 1), 1
      union all
      select (select held from {HELD} > hop.held order by held limit 1), hops + 1
      from hop where hop.held is not null and hops < $2
    )
    select json_group_array(json_array(hop.held, (select limits from {HELD} = hop.held {_IN_TURN} limit 1)))
    from hop where hop.held is not null"""
first_held = f"""
    select json_group_array(json_array(given.value, (select limits from {HELD} = given.value {_IN_TURN} limit 1)))
    from json_each($1) as given where exists (select 1 from {HELD} = given.value)"""
recent_starts = f"""
    select json_group_array(json_array(given.key, last,
      (select at from <start> as start where start.limit_key = given.key and start.number = last),
      json((select json_group_array(json_array(number, at)) from <start> as start
            where start.limit_key = given.key and number > last - rate and number <= last - rate + more))))
    from (select given.*, coalesce((select max(number) from <start> as start where start.limit_key = given.key), 0)
            as last
          from {given(("key", "rate", "more"), "$1")}) as given"""
recent_units = f"""
    select json_group_array(json_array(given.value, json_array(
      coalesce((select max(number) from <start> as start where start.limit_key = given.value), 0),
      (select opens_at from <opening> as opening where opening.limit_key = given.value),
      json((select json_array(-priority, coalesce(turn, id), id)
            from {HELD} = 'limit:' || given.value {_IN_TURN} limit 1)),
      json((select json_group_array(json_array(at, coalesce(units, 1))) from <start> as start
            where start.limit_key = given.value)))))
    from json_each($1) as given"""
drop_starts = f"""
    delete from <start> where (limit_key, number) in (
      select start.limit_key, start.number from {given(("key", "number"), "$1")}
      cross join <start> as start on start.limit_key = given.key and start.number <= given.number)"""
prune_starts = """
    delete from <start> where (limit_key, number) in (
      select limit_key, number from <start> indexed by <prefix>start_until where until <= <now> order by until
      limit $2)"""
# bytes that are not UTF-8 are read as U+FFFD, and JSON ends a text at a NUL: neither is found again
drop_unspelled_openings = """
    delete from <opening> indexed by <prefix>opening_at
    where opens_at <= <clock> and (limit_key glob '*[\ufffd]*' or instr(limit_key, char(0)))"""
counted_starts = f"""
    select json_group_array(json_array(given.key,
      (select coalesce(sum(coalesce(units, 1)), 0) from <start> as start
       where start.limit_key = given.key and start.at > <now> - given.span_ms)))
    from {given(("key", "span_ms"), "$2")}"""
