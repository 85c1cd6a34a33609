"""Texts about alerts."""

from __future__ import annotations

_IS_FREE = "until <= <now> or <note>.value = values(value) or until > values(until) + <interval:3>"
lead = (
    f"""
    insert into <note> (name, until, value) values ($2, <now> + <interval:3>, $4)
    on duplicate key update until = case when {_IS_FREE} then values(until) else until end,
      value = case when until = values(until) then values(value) else value end""",
    "select name from <note> where name = $2 and value = $4",
)
_FIRST = """
      select id from <alert> as first
      where (due_at <= <now> or due_at > <now> + <interval:3>)
        and not exists (
          select 1 from <alert> as earlier
          where earlier.finding = first.finding and earlier.way = first.way and earlier.id < first.id)
      order by id limit 1"""
claim_alert = (
    f"select id, attempts + 1, <ms:at>, way, body from <alert> where id = ({_FIRST}) for update",
    f"""
    update <alert> as alert join ({_FIRST}) as chosen on chosen.id = alert.id
    set alert.due_at = <now> + <interval:2>, alert.attempts = alert.attempts + 1""",
)
