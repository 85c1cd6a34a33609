"""Texts about limits: which jobs run under which key, which are held, and when the last ones started."""

from __future__ import annotations

from rowcall.store.postgres.words import milliseconds_of
from rowcall.store.queries.claims import OF_JOB
from rowcall.store.queries.limits import COUNTS, NUMBERS

# only `job_held_by` is for rows of any status
HELD = "<job> as job where status || '' = <pending> and held"
IN_TURN = "order by held, priority desc, coalesce(turn, id), id"


def _given(*columns: str, parameter: int = 1) -> str:
    """An array of arrays as a table of columns, each with its type."""
    named = []
    for index, column in enumerate(columns):
        name, kind = column.split()
        named.append(f"(value ->> {index})::{kind} as {name}")
    return f"(select {', '.join(named)} from jsonb_array_elements(${parameter}::text::jsonb)) as given"


# Never waits; what others have written under a key is seen by the statements after this one. The number of the table is
# the same on every connection, its name is not.
lock_limits = """
    with tried as materialized (
      select key, pg_try_advisory_xact_lock(hashtextextended(key, <named:slot>::regclass::oid::bigint)) as locked
      from jsonb_array_elements_text($1::text::jsonb) as given (key))
    select coalesce(jsonb_agg(key), '[]'::jsonb)::text from tried where locked"""
key_states = f"""
    select {milliseconds_of("(select <now>)")}, (
      select coalesce(jsonb_agg(jsonb_build_array(given.key, jsonb_build_array(
        (select {NUMBERS.format("jsonb_build_array")} from <quota> as quota where quota.name = given.name),
        (select count(*) filter (where {COUNTS}) from <slot> as slot where slot.limit_key = given.key),
        (select {milliseconds_of("until")} from <limit_hold> as hold
         where hold.limit_key = given.key and until > (select <now>)),
        (select jsonb_build_array({milliseconds_of("open_until")},
           (select count(*) from <slot> as slot cross join lateral (
              select 1 from <claim> as claim where claim.job_id = slot.job_id and claim.lease = slot.lease
                and claim.claimed_at >= breaker.open_until offset 0) as tries
            where slot.limit_key = given.key))
         from <breaker> as breaker where breaker.limit_key = given.key)))),
        '[]'::jsonb)::text
      from {_given("key text", "name text", parameter=2)})"""
# what is just being freed is skipped, and what is locked here is freed only after our commit
steady_slots = f"""
    with locked as materialized (
      select limit_key, job_id, lease, worker from <slot>
      where limit_key = any (array(select jsonb_array_elements_text($1::text::jsonb)))
        and job_id <> all ($2::text::bigint[])
      for share skip locked)
    select coalesce(jsonb_agg(limit_key) filter (where {COUNTS}), '[]'::jsonb)::text from locked as slot"""
# without a lease, only slots that no worker holds
free_slots = f"""
    with given as materialized (select * from {_given("job_id bigint", "lease bigint")}), freed as (
      delete from <slot> where job_id = any (array(select job_id from given))
        and ((job_id, lease) in (select job_id, lease from given)
             or worker is null and job_id in (select job_id from given where lease is null))
      returning limit_key)
    select coalesce(jsonb_agg(limit_key), '[]'::jsonb)::text from freed"""
held_keys = f"""
    with recursive hop (held, hops) as (
      (select held, 1 from {HELD} >= $1::text order by held limit 1)
      union all
      select next.held, hops + 1 from hop cross join lateral (
        select held from {HELD} > hop.held order by held limit 1) as next
      where hops < $2::int
    )
    select coalesce(jsonb_agg(jsonb_build_array(hop.held,
      (select limits from {HELD} = hop.held {IN_TURN} limit 1)) order by hop.held), '[]'::jsonb)::text
    from hop"""
first_held = f"""
    select coalesce(jsonb_agg(jsonb_build_array(given.held, mine.limits)), '[]'::jsonb)::text
    from jsonb_array_elements_text($1::text::jsonb) as given (held) cross join lateral (
      select limits from {HELD} = given.held {IN_TURN} limit 1) as mine"""
recent_starts = f"""
    select coalesce(jsonb_agg(jsonb_build_array(given.key, last,
      (select {milliseconds_of("at")} from <start> as start
       where start.limit_key = given.key and start.number = last),
      (select coalesce(jsonb_agg(jsonb_build_array(number, {milliseconds_of("at")})), '[]'::jsonb)
       from <start> as start
       where start.limit_key = given.key and number > last - rate and number <= last - rate + more))),
      '[]'::jsonb)::text
    from {_given("key text", "rate bigint", "more bigint")} cross join lateral (
      select coalesce((select number from <start> as start where start.limit_key = given.key
                       order by limit_key desc, number desc limit 1), 0) as last) as latest"""
recent_units = f"""
    select coalesce(jsonb_agg(jsonb_build_array(given.key, jsonb_build_array(
      coalesce((select number from <start> as start where start.limit_key = given.key
                order by limit_key desc, number desc limit 1), 0),
      (select {milliseconds_of("opens_at")} from <opening> as opening where opening.limit_key = given.key),
      (select jsonb_build_array(-priority, coalesce(turn, id), id)
       from {HELD} = 'limit:' || given.key {IN_TURN} limit 1),
      (select coalesce(jsonb_agg(jsonb_build_array({milliseconds_of("at")}, coalesce(units, 1))), '[]'::jsonb)
       from <start> as start where start.limit_key = given.key)))), '[]'::jsonb)::text
    from jsonb_array_elements_text($1::text::jsonb) as given (key)"""
# a job without a ready row is claimed
hold = f"""
    update <job> as job set held = $1::text::jsonb ->> job.id::text where id = any (array(
      select job.id from <job> as job cross join lateral (
        select 1 from <ready> as ready where {OF_JOB} for update skip locked) as ready
      where job.id = any (array(select key::bigint from jsonb_object_keys($1::text::jsonb) as key))
        and job.status = <pending> and job.held is null
      for update of job skip locked))"""
unhold = f"""
    update <job> as job set held = null where id = any (array(
      select mine.id from {_given("key text", "slots int")} cross join lateral (
        select id from {HELD} = given.key {IN_TURN} limit given.slots for update skip locked) as mine))"""
drop_starts = f"""
    delete from <start> where ctid = any (array(
      select mine.ctid from {_given("key text", "number bigint")} cross join lateral (
        select ctid from <start> as start where limit_key = given.key and number <= given.number) as mine))"""
prune_starts = """
    delete from <start> where ctid = any (array(
      select ctid from <start> where until <= (select <now>) order by until limit $2::int
      for update skip locked))"""
counted_starts = f"""
    select coalesce(jsonb_agg(jsonb_build_array(given.key,
      (select coalesce(sum(coalesce(units, 1)), 0) from <start> as start
       where start.limit_key = given.key and start.at > <now> - given.span_ms * interval '1 millisecond'))),
      '[]'::jsonb)::text
    from {_given("key text", "span_ms bigint", parameter=2)}"""
