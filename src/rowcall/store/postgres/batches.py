"""Texts about batches: their locks, and the jobs that ended."""

from __future__ import annotations

share_batches = "select id, (sealed_at is not null)::int from <batch> where id <in_ids:1> order by id for key share"
lock_batches = "select id from <batch> where id <in_ids:1> order by id for no key update"
lock_free_batches = f"{lock_batches} skip locked"
lock_whole_batch = "select id from <batch> where id = $1::bigint for update"
# From the end: the last jobs are the last to be claimed, so they are found at once. `= any (array[…])` is not a
# constant to the planner, so only the index of batches has this order.
_LAST = """
      select mine.id from unnest(array[<pending>, <scheduled>, <blocked>, <running>]) as open (status)
        cross join lateral (
          select id from <job> as job
          where batch_id = any (array[{}]) and batch_id is not null and job.status = open.status
          order by batch_id desc, job.status desc, id desc limit 1 {}) as mine
      limit 1"""
_LOCKED = _LAST.format("given.id", "for no key update skip locked")
hold_members = f"select given.id from <ids:1> cross join lateral ({_LOCKED}) as held"
open_member = _LAST.format("$1::bigint", "")
ended_members = """
    select batch_id, count(*), status from (
      select batch_id, status::text from <job> where id <in_ids:1> offset 0) as job
    where batch_id is not null and status in <finished> group by batch_id, status"""
