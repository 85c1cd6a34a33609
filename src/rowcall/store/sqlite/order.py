"""Texts about fair turns, and jobs in order."""

from __future__ import annotations

from rowcall.domain.limits import HELD_BY_ORDER, HELD_BY_OTHER_NAME
from rowcall.store.schema import HOLDS_ORDER
from rowcall.store.sqlite.limits import HELD
from rowcall.store.sqlite.words import given

_HEAD = f"""(select id from <job> indexed by <prefix>job_ordered where ordered = given.value and {HOLDS_ORDER}
             order by id limit 1)"""

serve = f"""
    insert into <served> (queue, scope, rank, turn)
    select queue, scope, rank, turn from {given(("queue", "scope", "rank", "turn"), "$1")} where true
    on conflict (queue, scope, rank) do update set turn = max(turn, excluded.turn)"""
heads = f"""
    select json_group_array(json_array(value, head)) from (
      select given.value, {_HEAD} as head from json_each($1) as given) where head is not null"""
ready_heads = f"""
    update <job> set held = null
    where id in (
      select {_HEAD} from json_each($1) as given
      union all
      select id from {HELD} in (select '{HELD_BY_OTHER_NAME}' || given.value from json_each($1) as given))
    and +status = <pending> and held glob '{HELD_BY_ORDER}*'"""
adopt = f"""
    update <job> set ordered = given.ordered, order_blocks = given.blocks
    from {given(("id", "ordered", "blocks"), "$1")}
    where <job>.id = given.id and <job>.ordered is null"""
