"""Texts about what needs attention."""

from __future__ import annotations

from rowcall.store.sqlite.limits import HELD
from rowcall.store.sqlite.words import given

_OF_GIVEN = "<ready> as ready where ready.queue = given.queue and ready.type = given.type"
_SHARE = "(select $2 / max(count(held), 1) from hop)"
_IN_TURN = "order by priority desc, coalesce(turn, id), id"

ready_backlogs = f"""
    select given.queue, given.type, (select count(*) from (select 1 from {_OF_GIVEN} limit $2)),
           (select min(since) from (select since from {_OF_GIVEN} order by rank, turn, id limit $2))
    from {given(("queue", "type"), "$1")}"""
held_backlogs = f"""
    with recursive hop (held, hops) as (
      select (select held from {HELD} >= 'limit:' order by held limit 1), 1
      union all
      select (select held from {HELD} > hop.held order by held limit 1), hops + 1
      from hop where hop.held is not null and hops < $1
    )
    select hop.held, (select count(*) from (select 1 from {HELD} = hop.held limit {_SHARE})), {_SHARE},
           (select id from {HELD} = hop.held {_IN_TURN} limit 1),
           (select max(run_at, created_at) from {HELD} = hop.held {_IN_TURN} limit 1)
    from hop where hop.held is not null"""
newest_with_error = """
    select id from <job> indexed by <prefix>job_error where status = $1 and error_code = $2 and type = $3
    order by id desc limit $4"""
