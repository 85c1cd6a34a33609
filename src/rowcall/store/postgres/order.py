"""Texts about fair turns, and jobs in order."""

from __future__ import annotations

from rowcall.domain.limits import HELD_BY_ORDER, HELD_BY_OTHER_NAME
from rowcall.store.schema import HOLDS_ORDER

# the order names both columns of the index: by the id alone, the planner might read all jobs
_HEAD = f"select id from <job> where ordered = given.key and {HOLDS_ORDER} order by ordered, id limit 1"
_KEYS = "jsonb_array_elements_text($1::text::jsonb) as given (key)"
_SERVED = """
      select given.one ->> 0 as queue, given.one ->> 1 as scope, (given.one ->> 2)::bigint as rank,
             (given.one ->> 3)::bigint as turn
      from jsonb_array_elements($1::text::jsonb) as given (one)"""

serve = f"""
    with given as materialized ({_SERVED}), mine as materialized (
      select served.queue, served.scope, served.rank, given.turn from given join <served> as served
        using (queue, scope, rank) where served.turn < given.turn for update of served skip locked
    ), later as (
      update <served> as served set turn = greatest(served.turn, mine.turn) from mine
      where served.queue = mine.queue and served.scope = mine.scope and served.rank = mine.rank)
    insert into <served> (queue, scope, rank, turn) select queue, scope, rank, turn from given
    where not exists (select from <served> as served where served.queue = given.queue and served.scope = given.scope
                      and served.rank = given.rank)
    on conflict (queue, scope, rank) do nothing"""
heads = f"""
    select coalesce(jsonb_agg(jsonb_build_array(given.key, head.id)), '[]'::jsonb)::text
    from {_KEYS} cross join lateral ({_HEAD}) as head"""
steady_heads = f"""
    select to_json(array(
      select id from <job> where id = any ($1::text::bigint[]) and {HOLDS_ORDER} for share skip locked))::text"""
_MINE = "select id from <job> where status = <pending> and {} for update skip locked"
ready_heads = f"""
    update <job> as job set held = null where id = any (array(
      select mine.id from {_KEYS} cross join lateral ({_HEAD}) as head
        cross join lateral ({_MINE.format(f"id = head.id and held like '{HELD_BY_ORDER}%'")}) as mine
      union all
      select mine.id from {_KEYS}
        cross join lateral ({_MINE.format(f"held = '{HELD_BY_OTHER_NAME}' || given.key")}) as mine))"""
adopt = """
    update <job> as job set ordered = given.one ->> 1, order_blocks = (given.one ->> 2)::int
    from jsonb_array_elements($1::text::jsonb) as given (one)
    where job.id = (given.one ->> 0)::bigint and job.ordered is null"""
