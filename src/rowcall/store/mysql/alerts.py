"""Texts about alerts."""

from __future__ import annotations

from rowcall.store.mysql.words import noted

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
_DUE, _DUE_ALERT = noted(f"select id from <alert> where id = ({_FIRST}) for update")
claim_alert = (
    _DUE,
    f"""
    select alert.id, alert.attempts + 1, <ms:alert.at>, alert.way, alert.body
    from {_DUE_ALERT} straight_join <alert> as alert on alert.id = chosen.id""",
    f"""
    update {_DUE_ALERT} straight_join <alert> as alert on chosen.id = alert.id
    set alert.due_at = <now> + <interval:2>, alert.attempts = alert.attempts + 1""",
)
