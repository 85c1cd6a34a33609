"""Batches: named groups of jobs with counts, and what follows when all of their jobs have ended.

The contract
------------
* **Members.** A job is in a batch by its column `batch_id`, from its enqueue on.
* **Counts.** A transaction that adds, ends, retries or deletes a job of a batch adds a signed tally, and waits for no
  other one. The counts of a batch are its own columns and its tallies, read by one statement.
* **Locks.** The row of a batch is locked after jobs. Adding shares it (`for key share`). Finishing, folding and
  reopening exclude each other (`for no key update`), and sealing excludes all.
* **The end.** A transaction that ends jobs of a batch locks another job of it that has not ended (`HOLD_MEMBERS`). So
  the end of that one comes later, and sees both. If there is none, it locks the batch, and looks once more: of
  two transactions that end the last jobs, the second one sees that all have ended.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from rowcall.base.times import time_of, time_or_none
from rowcall.domain.batches import BatchInfo, Callback, callback_from_text
from rowcall.store.columns import milliseconds
from rowcall.store.statement import Change, Ids, Int, Json, Ms, Now, Query, Row, Text, number_from_row

_SERVER = ("postgres", "mysql")


class StoredBatch(NamedTuple):
    """A batch, without what runs now, and what follows its end."""

    info: BatchInfo
    on_finish: Callback | None
    on_success: Callback | None


class BatchEnds(NamedTuple):
    """How many jobs of a batch ended with a status; without one, how many were added."""

    batch_id: int
    jobs: int
    status: str | None


def stored_from_row(row: Row) -> StoredBatch:
    batch_id, name, created, sealed, finished, finish_job, success_job, on_finish, on_success, *counts = row
    added, succeeded, failed, cancelled = (max(0, int(cast("int", count))) for count in counts)
    ended = succeeded + failed + cancelled
    finish, success = (callback_from_text(cast("str | None", text)) for text in (on_finish, on_success))
    info = BatchInfo(
        id=cast("int", batch_id),
        name=cast("str", name),
        status="open" if sealed is None else "sealed" if finished is None else "finished",
        created_at=time_of(cast("int", created)),
        sealed_at=time_or_none(milliseconds(sealed)),
        finished_at=time_or_none(milliseconds(finished)),
        total=added,
        waiting=max(0, added - ended),
        succeeded=succeeded,
        failed=failed,
        cancelled=cancelled,
        progress=min(1.0, ended / added) if added else float(finished is not None),
        on_finish=None if finish is None else finish.type,
        on_success=None if success is None else success.type,
        finish_job=cast("int | None", finish_job),
        success_job=cast("int | None", success_job),
    )
    return StoredBatch(info, finish, success)


def ends_from_row(row: Row) -> BatchEnds:
    batch_id, jobs, status = cast("tuple[int, int, str | None]", row)
    return BatchEnds(batch_id, int(jobs), status)


def pair_from_row(row: Row) -> tuple[int, int | None]:
    return cast("tuple[int, int | None]", row)


_COUNTS = ", ".join(
    f"{column} + coalesce((select sum(tally.jobs) from <batch_tally> as tally"
    f" where tally.batch_id = batch.id and tally.status {'is null' if column == 'added' else f'= <{column}>'}), 0)"
    for column in ("added", "succeeded", "failed", "cancelled")
)
_STORED = f"""
    select id, name, <ms:created_at>, <ms:sealed_at>, <ms:finished_at>, finish_job, success_job, <text_of:on_finish>,
           <text_of:on_success>, {_COUNTS}
    from <batch> as batch"""
_ANY_OPEN = """exists (select 1 from <job> as job
                   where job.batch_id = batch.id and job.status in <unfinished> <as_written>)"""

# name, on_finish, on_success
_ADD_BATCH = """
    insert into <batch> (created_at, name, on_finish, on_success)
    values (<now>, <text:2>, <json:3>, <json:4>) returning id"""
ADD_BATCH = Query("add_batch", (Now, Text, Text, Text), number_from_row, text=_ADD_BATCH)
BATCHES = Query("batches", (Ids,), stored_from_row, text=f"{_STORED} where id <in_ids:1> order by id")
_LIST_BATCHES = f"{_STORED} where id < <bigint:1> order by id desc limit <int:2>"
LIST_BATCHES = Query("list_batches", (Int, Int), stored_from_row, text=_LIST_BATCHES)
# how many jobs of these batches run
_RUNNING_IN = """
    select batch_id, count(*) from (
      select (select batch_id from <job> where id = claim.job_id) as batch_id from <claim> as claim) as running
    where batch_id <in_ids:1> group by batch_id"""
RUNNING_IN = Query("running_in", (Ids,), pair_from_row, text=_RUNNING_IN)
# any job that has not ended, with a high id
OPEN_MEMBER = Query("open_member", (Int,), number_from_row)
_BATCHES_OF = "select id, batch_id from <job> where id <in_ids:1>"
BATCHES_OF = Query("batches_of", (Ids,), pair_from_row, text=_BATCHES_OF)

# the batches that exist, and whether they are sealed; locked until the end of the transaction
SHARE_BATCHES = Query("share_batches", (Ids,), pair_from_row)
LOCK_BATCHES = Query("lock_batches", (Ids,), number_from_row)
LOCK_FREE_BATCHES = Query("lock_free_batches", (Ids,), number_from_row)
LOCK_WHOLE_BATCH = Query("lock_whole_batch", (Int,), number_from_row)
_SEAL = "update <batch> set sealed_at = <now> where id = <bigint:2> and sealed_at is null returning id"
SEAL = Query("seal", (Now, Int), number_from_row, text=_SEAL)
# batches of which another job, that has not ended, is now locked
HOLD_MEMBERS = Query("hold_members", (Ids,), number_from_row, only=_SERVER)
# of locked batches, the ones that are sealed, not finished, and without a job that has not ended
_OVER = f"""{_STORED}
    where id <in_ids:1> and sealed_at is not null and finished_at is null and not {_ANY_OPEN} order by id"""
OVER = Query("over", (Ids,), stored_from_row, text=_OVER)
_ANY_UNENDED = f"select id from <batch> as batch where id <in_ids:1> and {_ANY_OPEN}"
ANY_UNENDED = Query("any_unended", (Ids,), number_from_row, text=_ANY_UNENDED)
# the id, the jobs that were enqueued
_FINISH = """
    update <batch> set finished_at = <now>, finish_job = coalesce(finish_job, <bigint:3>),
      success_job = coalesce(success_job, <bigint:4>)
    where id = <bigint:2> returning id"""
FINISH = Query("finish", (Now, Int, Int, Int), number_from_row, text=_FINISH)
_REOPEN = "update <batch> set finished_at = null where id <in_ids:1> and finished_at is not null returning id"
REOPEN = Query("reopen", (Ids,), number_from_row, text=_REOPEN)

# of jobs, how many ended how in which batch
ENDED_MEMBERS = Query("ended_members", (Ids,), ends_from_row)
_TALLY_BATCHES = """
    insert into <batch_tally> (batch_id, jobs, status) select <fields:bigint bigint text> from <rows:1> where true
    returning id"""
TALLY_BATCHES = Query("tally_batches", (Json,), number_from_row, text=_TALLY_BATCHES)
_TALLIED = "select distinct batch_id from <batch_tally> order by batch_id limit <int:1>"
TALLIED = Query("tallied", (Int,), number_from_row, text=_TALLIED)
_REMOVE_BATCH_TALLIES = """
    delete from <batch_tally> where id <in_rows>
      select id from <batch_tally> where batch_id <in_ids:1> limit <int:2> <end_rows>
    returning batch_id, jobs, status"""
REMOVE_BATCH_TALLIES = Query("remove_batch_tallies", (Ids, Int), ends_from_row, text=_REMOVE_BATCH_TALLIES)
# the id, and what is added to each of its counts
_ADD_COUNTS = """
    update <batch> set added = added + <bigint:2>, succeeded = succeeded + <bigint:3>, failed = failed + <bigint:4>,
      cancelled = cancelled + <bigint:5>
    where id = <bigint:1> returning id"""
ADD_COUNTS = Query("add_counts", (Int, Int, Int, Int, Int), number_from_row, text=_ADD_COUNTS)

DROP_BATCH = Query("drop_batch", (Int,), number_from_row, text="delete from <batch> where id = <bigint:1> returning id")
# finished before a time, and without jobs
_PRUNE_BATCHES = """
    delete from <batch> where id <in_rows>
      select id from <batch> as batch where finished_at is not null and finished_at < <time:1>
        and not exists (select 1 from <job> as job where job.batch_id = batch.id <as_written>)
      order by finished_at limit <int:2> <for_update> <skip_locked> <end_rows>"""
PRUNE_BATCHES = Change("prune_batches", (Ms, Int), text=_PRUNE_BATCHES)
# of batches that are gone
_DROP_LEFT_TALLIES = "delete from <batch_tally> where batch_id not in (select id from <batch>)"
DROP_LEFT_TALLIES = Change("drop_left_tallies", text=_DROP_LEFT_TALLIES)
