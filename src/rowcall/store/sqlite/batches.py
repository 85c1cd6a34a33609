"""Texts about batches. There is one writer, so nothing is locked."""

from __future__ import annotations

share_batches = "select id, sealed_at is not null from <batch> where id <in_ids:1>"
lock_batches = "select id from <batch> where id <in_ids:1> order by id"
lock_free_batches = lock_batches
lock_whole_batch = "select id from <batch> where id = $1"
ended_members = """
    select batch_id, count(*), status from <job>
    where id <in_ids:1> and +batch_id is not null and +status in <finished> group by batch_id, status"""
_OF_STATUS = """
      select * from (select id from <job> where batch_id = $1 and status = {} order by id desc limit 1)"""
_STATUSES = ("<pending>", "<scheduled>", "<blocked>", "<running>")
open_member = f"""
    select id from ({" union all ".join(map(_OF_STATUS.format, _STATUSES))}) order by id desc limit 1"""
