"""Texts about batches: their locks, and the jobs that ended."""

from __future__ import annotations

from rowcall.store.mysql.words import adapted
from rowcall.store.queries.batches import ADD_BATCH
from rowcall.store.statement import Otherwise

add_batch = (str(adapted(str(ADD_BATCH.text))), Otherwise("select last_insert_id()"))
share_batches = "select id, sealed_at is not null from <batch> where id in $1 order by id lock in share mode"
lock_batches = "select id from <batch> where id in $1 order by id for update"
lock_free_batches = f"{lock_batches} skip locked"
lock_whole_batch = "select id from <batch> where id = $1 for update"
_OPEN = "batch_id {} and status in (<pending>, <scheduled>, <blocked>, <running>)"
hold_members = f"""
    select distinct batch_id from <job> where {_OPEN.format("in $1")} for update skip locked"""
open_member = f"select id from <job> where {_OPEN.format('= $1')} order by id desc limit 1"
ended_members = """
    select batch_id, count(*), status from <job>
    where id in $1 and batch_id is not null and status in <finished> group by batch_id, status"""
