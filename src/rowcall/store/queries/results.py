"""Waiting for the end of jobs, and for what happens to any job.

On a server, waiters register, and a transaction that ends a job notifies them. With a SQLite file only a reader of
events registers: commits to the file can be seen.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from rowcall.base.times import EPOCH
from rowcall.domain.job import JobEvent
from rowcall.store.columns import secret_of, text, time
from rowcall.store.statement import Change, Ids, Int, Json, Now, Query, Row, Text, number_from_row, row_as

_SERVER, _FILE = ("postgres", "mysql"), ("sqlite",)
ANY_JOB = 0
"""In place of a job's id: a reader of the events of all jobs."""
KEPT_CHANGES = 10_000
LATEST = 9_000_000_000_000_000_000
FROM_EVENTS = 8_000_000_000_000_000_000
"""Sequence numbers in timelines: that of the latest attempt, and that before the rows of the table of events."""


class DeletedRows(NamedTuple):
    """Rows that were deleted with jobs that had not ended: the index of their table in `Heads.newest`, and ids."""

    source: int
    low: int
    high: int


class Heads(NamedTuple):
    """The newest rows that say what happened; on a server, also which transactions were open.

    With a file, also the highest ids of jobs that were deleted before they ended, and of their events.
    """

    now_ms: int
    registered: bool
    job: int
    event: int
    change: int
    oldest_open: int = 0
    next_transaction: int = 0
    deleted_job: int = 0
    deleted_event: int = 0

    @property
    def newest(self) -> tuple[int, int, int]:
        return self.job, self.event, self.change

    @property
    def deleted(self) -> tuple[DeletedRows, DeletedRows]:
        return DeletedRows(0, self.deleted_job, self.deleted_job), DeletedRows(
            1, self.deleted_event, self.deleted_event
        )


class NewRow(NamedTuple):
    """A row that says what happened: the index of its table in `Heads.newest`, its id, and the jobs it is about."""

    source: int
    id: int
    about: str


class Running(NamedTuple):
    job_id: int
    lease: int
    started: bool
    heartbeat_ms: int | None


class Happened(NamedTuple):
    """A line of a timeline, the lease of its attempt, whether its job has finished, and where the line stands."""

    event: JobEvent
    lease: int
    is_finished: bool
    seq: int
    rank: int


def end_from_row(row: Row) -> tuple[int, bool]:
    job_id, has_ended = cast("tuple[int, int]", row)
    return job_id, bool(has_ended)


def happened_from_row(row: Row) -> Happened:
    job_id, queue, task, lease, is_finished, at, seq, rank, event, actor, detail, secret = row
    job_event = JobEvent(
        at=time(at) or EPOCH,
        event=text(event) or "",
        actor=text(actor),
        detail=text(detail),
        job_id=cast("int", job_id),
        type=text(task),
        queue=text(queue),
        **secret_of(event, secret),
    )
    return Happened(job_event, cast("int", lease), bool(is_finished), int(cast("int", seq)), cast("int", rank))


# jobs that have finished or are gone; and, with false, jobs that an open transaction may be about to finish without
# having seen the waiter
ENDS = Query("ends", (Ids,), end_from_row)
REGISTER_WAITER = Query("register_waiter", (Now, Text, Ids))  # for one minute
# returns the jobs for which the waiter was still registered: without its row, nothing was recorded for it
RENEW_WAITER = Query("renew_waiter", (Now, Text, Ids), number_from_row)
_REMOVE_WAITER = "delete from <waiter> where name = <text:1> and job_id <in_ids:2>"
REMOVE_WAITER = Query("remove_waiter", (Text, Ids), text=_REMOVE_WAITER)
PRUNE_WAITERS = Query("prune_waiters", (Now,))
_PRUNE_CHANGES = f"""
    delete from <change> where id <= (select max(id) from <change>) - {KEPT_CHANGES}
      or not exists (select 1 from <waiter> where job_id = {ANY_JOB})"""
PRUNE_CHANGES = Change("prune_changes", text=_PRUNE_CHANGES)
# what happened to these jobs; a server notifies when the transaction commits
NOTIFY_WAITERS = Query("notify_waiters", (Ids,))
# of streams of these jobs; with a file, they see the commit
NOTIFY_READERS = Query("notify_readers", (Ids,), only=("postgres",))

# events: the newest rows, rows behind given ones, rows with ids in given ranges
EVENT_HEADS = Query("event_heads", (Now, Text), row_as(Heads))
_NEW_ROWS = """
    select 0, id, cast(id as text) from (select id from <job> where id > <bigint:1> order by id limit <int:4>) as job
    union all
    select 1, id, cast(job_id as text) from (
      select id, job_id from <event> where id > <bigint:2> order by id limit <int:4>) as event
    union all
    select 2, id, jobs from (select id, jobs from <change> where id > <bigint:3> order by id limit <int:5>) as change"""
NEW_ROWS = Query("new_rows", (Int, Int, Int, Int, Int), row_as(NewRow), text=_NEW_ROWS)
LATE_ROWS = Query("late_rows", (Json, Int), row_as(NewRow), only=_SERVER)
_RUNNING_NOW = """
    select job_id, lease, case when started_at is null then 0 else 1 end, <ms_or_null:heartbeat_at> from <claim>
    limit <int:1>"""
RUNNING_NOW = Query("running_now", (Int,), row_as(Running), text=_RUNNING_NOW)
TIMELINE_OF_ONE = Query("timeline_of_one", (Int,), happened_from_row, only=_FILE)
TIMELINES_OF = Query("timelines_of", (Ids,), happened_from_row, only=_SERVER)
