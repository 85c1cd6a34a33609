"""Texts about what needs attention."""

from __future__ import annotations

from rowcall.store.postgres.limits import HELD, IN_TURN

ready_backlogs = """
    select given.pair ->> 0, given.pair ->> 1, part.jobs, <ms_or_null:part.since>
    from jsonb_array_elements($1::text::jsonb) as given (pair) cross join lateral (
      select count(*) as jobs, min(since) as since from (
        select since from <ready> where queue = given.pair ->> 0 and type = given.pair ->> 1
        order by queue, type, rank, turn, id limit $2::int) as first) as part"""
held_backlogs = f"""
    with recursive hop (held, hops) as (
      (select held, 1 from {HELD} >= 'limit:' order by held limit 1)
      union all
      select next.held, hops + 1 from hop cross join lateral (
        select held from {HELD} > hop.held order by held limit 1) as next
      where hops < $1::int
    ), share as (select $2::int / greatest(count(*), 1) as most from hop)
    select hop.held, (select count(*) from (
             select from {HELD} = hop.held {IN_TURN} limit (select most from share)) as counted), share.most,
           first.id, <ms_or_null:first.since>
    from share cross join hop cross join lateral (
      select id, greatest(run_at, created_at) as since from {HELD} = hop.held {IN_TURN} limit 1) as first"""
# `= any (array[…])` is not a constant to the planner, so only this index has the order
newest_with_error = """
    select id from <job> where status = any (array[$1::text]) and error_code = $2::text and type = $3::text
    order by status desc, error_code desc, type desc, id desc limit $4::int"""
server_state = """
    select (select sum(numbackends) from pg_stat_database),
           current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
           pg_is_in_recovery() or current_setting('default_transaction_read_only')::bool"""
