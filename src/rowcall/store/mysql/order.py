"""Texts about fair turns, and jobs in order."""

from __future__ import annotations

from rowcall.domain.limits import HELD_BY_ORDER, HELD_BY_OTHER_NAME
from rowcall.store.mysql.words import given, in_two
from rowcall.store.schema import HOLDS_ORDER

_HEAD = f"(select id from <job> <indexed:job_ordered> where ordered = given.item and {HOLDS_ORDER} order by id limit 1)"

serve = f"""
    insert into <served> (queue, scope, `rank`, turn)
    select queue, scope, `rank`, turn from {given("queue text, scope text, rank bigint, turn bigint", 1)}
    order by 1, 2, 3
    on duplicate key update turn = greatest(<served>.turn, values(turn))"""
heads = f"""
    select coalesce(json_arrayagg(json_array(item, head)), '[]') from (
      select given.item, {_HEAD} as head from <texts:1>) as heads where head is not null"""
steady_heads = f"""
    select coalesce(json_arrayagg(id), '[]') from (
      select id from <job> where id in $1 and {HOLDS_ORDER} lock in share mode skip locked) as steady"""
ready_heads = in_two(f"""
    update <job> as job join (
      select id from <job> where status = <pending> and held like '{HELD_BY_ORDER}%' and id in (
        select * from (
          select {_HEAD} as id from <texts:1>
          union all
          select job.id from <texts:1> straight_join <job> as job <indexed:job_held_by>
            on job.status = <pending> and job.held = concat('{HELD_BY_OTHER_NAME}', given.item)) as heads)
      for update skip locked
    ) as chosen on job.id = chosen.id set job.held = null""")
adopt = f"""
    update {given("id bigint, ordered text, blocks int", 1)} straight_join <job> as job on job.id = given.id
    set job.order_blocks = given.blocks, job.ordered = given.ordered
    where job.ordered is null"""
