"""What people do to jobs and queues. Every statement here is about jobs that the transaction has locked before."""

from __future__ import annotations

from typing import NamedTuple, cast

from rowcall.base.times import time_of
from rowcall.domain.job import Job, Paused
from rowcall.domain.outcome import (
    BLOCKER_CANCELLED_CODE,
    BLOCKER_FAILED_CODE,
    CHAIN_COMPLETED_CODE,
    EXPIRED_CODE,
    LOST_CODE,
)
from rowcall.domain.payload import UNFIT_CODES
from rowcall.store.columns import job_from_row
from rowcall.store.rendering import literals
from rowcall.store.statement import Ids, Int, Json, Ms, Now, Query, Row, Text, always_notify, number_from_row


class CancelRequest(NamedTuple):
    """A running attempt with a cancel request."""

    id: int
    lease: int
    queue: str
    type: str
    attempt: int
    reason: str | None


class Interrupted(NamedTuple):
    """An attempt that must end: it has a cancel request, or it is no longer current."""

    id: int
    lease: int
    is_current: bool
    """False where its job is gone, has another lease, or is not running."""
    reason: str | None


class Rerun(NamedTuple):
    """A finished job that is to run again, at a time or at once."""

    id: int
    more_attempts: int
    run_at_ms: int | None = None


class Obstacle(NamedTuple):
    """Why a finished job cannot run again: another has its key, or a later step of its chain exists."""

    job_id: int
    kind: str
    other_id: int


class FailedAt(NamedTuple):
    """A failed job, and its position among those with its code: by the time of its end, then by its id."""

    moment: int
    job: Job


def cancel_request_from_row(row: Row) -> CancelRequest:
    return CancelRequest(*cast("tuple[int, int, str, str, int, str | None]", row))


def interrupted_from_row(row: Row) -> Interrupted:
    job_id, lease, is_current, reason = cast("tuple[int, int, int, str | None]", row)
    return Interrupted(job_id, lease, bool(is_current), reason)


def locked_attempt_from_row(row: Row) -> tuple[int, bool]:
    job_id, has_request = cast("tuple[int, int]", row)
    return job_id, bool(has_request)


def obstacle_from_row(row: Row) -> Obstacle:
    return Obstacle(*cast("tuple[int, str, int]", row))


def failed_from_row(row: Row) -> FailedAt:
    return FailedAt(cast("int", row[0]), job_from_row(row[1:]))


def paused_from_row(row: Row) -> Paused:
    kind, name, actor, at = cast("tuple[str, str, str | None, int]", row)
    return Paused(kind=kind, name=name, actor=actor, at=time_of(at))


REASON = """(select detail from <event> as event
          where event.job_id = job.id and event = 'CANCEL_REQUESTED' order by event.id desc limit 1)"""
_CODES_OF_OTHERS = literals((BLOCKER_FAILED_CODE, BLOCKER_CANCELLED_CODE, CHAIN_COMPLETED_CODE, *UNFIT_CODES))

# cancelling running jobs. The first returns the jobs that had no request before
REQUEST_CANCEL = Query(
    "request_cancel",
    (Ids,),
    number_from_row,
    text="""
        update <job> as job set cancel_lease = lease where id <in_ids:1> and coalesce(cancel_lease, -1) <> lease
        returning id""",
)
# attempts (ids and leases), and whether each has a request; no new request can come until the transaction ends
LOCK_ATTEMPTS = Query("lock_attempts", (Json,), locked_attempt_from_row)
CANCEL_REQUESTS = Query(
    "cancel_requests",
    (Ids,),
    cancel_request_from_row,
    text=f"""
        select job.id, job.lease, job.queue, job.type, job.attempt, {REASON}
        from <job> as job where id <in_ids:1> order by id""",
)
INTERRUPTED = Query("interrupted", (Json,), interrupted_from_row)

LOCK_JOBS = Query(  # in the order of their ids
    "lock_jobs",
    (Ids,),
    job_from_row,
    text="select <job_columns> from <job> as job where id <in_ids:1> order by id <for_update>",
)
CANCEL_WAITING = Query(
    "cancel_waiting",
    (Now, Ids, Text, Text),
    text="""
        update <job> as job set status = <to:cancel>, lease = <next:job.lease>, finished_at = <now>,
          error_code = <text:3>, error_detail = <text:4>
        where id <in_ids:2>""",
)
UNFINISHED_WITH_KEY = Query("unfinished_with_key", (Text, Text, Int, Int), job_from_row)  # newest first
FAILED_WITH = Query("failed_with", (Text, Int, Int, Text, Text, Int), failed_from_row)  # oldest failure first

# running finished jobs again. What only the row recorded about its end is kept as an attempt or an event
RECORD_LAST_ATTEMPTS = Query(
    "record_last_attempts",
    (Ids,),
    text=f"""
        insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                               error_detail, traceback)
        select id, attempt, case when status = <failed> and error_code = '{LOST_CODE}' then 'lost' else status end,
               claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback
        from <job> where id <in_ids:1> and claimed_at is not null""",
)
RECORD_ENDS = Query(
    "record_ends",
    (Ids,),
    text=f"""
        insert into <event> (job_id, at, event, detail)
        select id, coalesce(finished_at, created_at),
               case when status = <failed> then 'FAILED' when error_code = '{EXPIRED_CODE}' then 'EXPIRED'
                    else 'CANCELLED' end,
               case error_code when '{LOST_CODE}' then error_code when '{EXPIRED_CODE}' then error_detail
                    else error_code || coalesce(': ' || error_detail, '') end
        from <job> where id <in_ids:1>
          and (error_code = '{EXPIRED_CODE}' or (status = <failed> and error_code = '{LOST_CODE}')
               or (claimed_at is null and error_code in {_CODES_OF_OTHERS}))""",
)
RERUN = Query("rerun", (Now, Json), hint=always_notify)
OBSTACLES = Query("obstacles", (Ids,), obstacle_from_row)

RECORD_EVENTS = Query(
    "record_events",
    (Now, Ids, Text, Text, Text),
    text="""
        insert into <event> (job_id, at, event, actor, detail)
        select given.id, <now>, <text:3>, <text:4>, <text:5> from <ids:2> returning id""",
)
RESCHEDULE = Query(
    "reschedule",
    (Now, Int, Ms, Int),
    text="""
        update <job> as job set run_at = chosen.run_at, held = null, held_until = null,
          status = case when job.status = <blocked> then job.status
                        when chosen.run_at > chosen.now then <to:reschedule> else <to:stage> end
        from (select now, coalesce(<time:3>, now + <interval:4>) as run_at
              from (select <now> as now) as clock) as chosen
        where job.id = <bigint:2>""",
    hint=always_notify,
)
SET_PRIORITY = Query("set_priority", (Int, Int), text="update <job> set priority = <int:2> where id = <bigint:1>")

PAUSE = Query(  # a pause that exists stays as it is
    "pause",
    (Now, Text, Text, Text),
    paused_from_row,
    text="""
        insert into <pause> (kind, name, actor, at) values (<text:2>, <text:3>, <text:4>, <now>)
        on conflict (kind, name) do update set kind = excluded.kind
        returning kind, name, actor, <ms:at>""",
)
RESUME = Query(
    "resume",
    (Text, Text),
    hint=bool,
    text="delete from <pause> where kind = <text:1> and name = <text:2> returning name",
)
PAUSED = Query("paused", (), paused_from_row, text="select kind, name, actor, <ms:at> from <pause> order by kind, name")
