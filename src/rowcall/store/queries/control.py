"""What people do to jobs and queues. Every statement here is about jobs that the transaction has locked before."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

from rowcall.base.times import time_of
from rowcall.domain.job import Paused
from rowcall.domain.outcome import (
    BLOCKER_CANCELLED_CODE,
    BLOCKER_FAILED_CODE,
    CHAIN_COMPLETED_CODE,
    DEADLINE_CODE,
    EXPIRED_CODE,
    LOST_CODE,
)
from rowcall.domain.payload import UNFIT_CODES
from rowcall.store.columns import text
from rowcall.store.rendering import literals
from rowcall.store.statement import (
    Float,
    Ids,
    Int,
    Json,
    Ms,
    Now,
    Query,
    Row,
    Text,
    always_notify,
    number_from_row,
    row_as,
    text_from_row,
)

T = TypeVar("T")


class Texts(NamedTuple):
    """What a job's row holds that can be encrypted."""

    id: int
    payload: str
    result: str | None
    error_detail: str | None
    traceback: str | None
    progress_message: str | None
    type: str


class History(NamedTuple):
    """What the row of an earlier attempt holds that can be encrypted."""

    id: int
    error_detail: str | None
    traceback: str | None
    type: str


def texts_from_row(kind: Callable[..., T]) -> Callable[[Row], T]:
    """Return the maker of a value whose texts may be in columns that are not checked."""
    return lambda row: kind(row[0], *map(text, row[1:]))


class StepTexts(NamedTuple):
    """What the row of a step holds that can be encrypted."""

    job_id: int
    position: int
    result: str | None
    error_detail: str | None
    question: str | None
    type: str
    kind: str
    name: str


class StreamText(NamedTuple):
    """What the row of a value in a stream holds that can be encrypted."""

    job_id: int
    number: int
    value: str
    type: str


class LogText(NamedTuple):
    """What the row of a log holds that can be encrypted."""

    job_id: int
    lease: int
    lines: str
    type: str


class SignalText(NamedTuple):
    """What the row of a signal holds that can be encrypted."""

    id: int
    job_id: int
    value: str | None
    type: str


class CancelRequest(NamedTuple):
    """A running attempt with a cancel request."""

    id: int
    queue: str
    type: str
    attempt: int
    reason: str | None


class Interrupted(NamedTuple):
    """An attempt that must end: it has a cancel request, or it is no longer current."""

    id: int
    lease: int
    is_current: bool
    """False where its claim is gone, or its job was ended or changed from outside."""
    reason: str | None
    request: str | None = None
    """Set in a row that is about no attempt: a request for a stack, of any job, or a limit that was changed."""


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


class Moved(NamedTuple):
    """A job, and when it runs now."""

    id: int
    run_at_ms: int


def interrupted_from_row(row: Row) -> Interrupted:
    job_id, lease, is_current, reason, request = cast("tuple[int, int, int, str | None, str | None]", row)
    return Interrupted(job_id, lease, bool(is_current), reason, request)


def limits_from_row(row: Row) -> str | None:
    return None if row[0] is None else text_from_row(row)


def paused_from_row(row: Row) -> Paused:
    kind, name, actor, at = cast("tuple[str, str, str | None, int]", row)
    return Paused(kind=kind, name=name, actor=actor, at=time_of(at))


STACK_REQUEST = "stack:"
"""How the names of settings begin that are requests: job, lease, time and a token follow. The value is the answer."""
LIMIT_CHANGED = "limit:"
"""The time of the change and the name of the limit follow, or the time until which a key is held and the key."""
REASON = """(select detail from <event> as event
          where event.job_id = job.id and event = 'CANCEL_REQUESTED' order by event.id desc limit 1)"""
_CODES_OF_OTHERS = literals(
    (BLOCKER_FAILED_CODE, BLOCKER_CANCELLED_CODE, CHAIN_COMPLETED_CODE, DEADLINE_CODE, *UNFIT_CODES)
)

# cancelling running jobs. The first returns the jobs that had no request before
_REQUEST_CANCEL = "update <claim> set cancel = 1 where job_id <in_ids:1> and cancel = 0 returning job_id"
REQUEST_CANCEL = Query("request_cancel", (Ids,), number_from_row, text=_REQUEST_CANCEL)
_CANCEL_REQUESTS = (
    f"select job.id, job.queue, job.type, job.attempt + 1, {REASON} from <job> as job where id <in_ids:1>"
)
CANCEL_REQUESTS = Query("cancel_requests", (Ids,), row_as(CancelRequest), text=_CANCEL_REQUESTS)
# attempts (fences) that must end, all open requests for stacks, and all limits that were changed, or keys held:
# one statement, as it runs several times a second
INTERRUPTED = Query("interrupted", (Now, Json), interrupted_from_row)

# in the order of their ids
_LOCK_JOBS = "select id from <job> where id <in_ids:1> order by id for update"
LOCK_JOBS = Query("lock_jobs", (Ids,), number_from_row, text=_LOCK_JOBS, only=("postgres", "mysql"))

# running finished jobs again. What only the row recorded about its end is kept as an attempt or an event
_RECORD_LAST_ATTEMPTS = f"""
    insert into <attempt> (job_id, attempt, status, claimed_at, started_at, finished_at, worker, error_code,
                           error_detail, traceback, lease)
    select id, attempt, case when status = <failed> and error_code = '{LOST_CODE}' then 'lost' else status end,
           claimed_at, started_at, finished_at, worker, error_code, error_detail, traceback, lease
    from <job> where id <in_ids:1> and claimed_at is not null"""
RECORD_LAST_ATTEMPTS = Query("record_last_attempts", (Ids,), text=_RECORD_LAST_ATTEMPTS)
_RECORD_ENDS = f"""
    insert into <event> (job_id, at, event, detail)
    select id, coalesce(finished_at, created_at),
           case when status = <failed> then 'FAILED' when error_code = '{EXPIRED_CODE}' then 'EXPIRED'
                else 'CANCELLED' end,
           case error_code when '{LOST_CODE}' then error_code when '{EXPIRED_CODE}' then error_detail
                else error_code || coalesce(': ' || error_detail, '') end
    from <job> where id <in_ids:1>
      and (error_code = '{EXPIRED_CODE}' or (status = <failed> and error_code = '{LOST_CODE}')
           or (claimed_at is null and error_code in {_CODES_OF_OTHERS}))"""
RECORD_ENDS = Query("record_ends", (Ids,), text=_RECORD_ENDS)
RERUN = Query("rerun", (Now, Json), notifies=always_notify)
OBSTACLES = Query("obstacles", (Ids,), row_as(Obstacle))

_RECORD_EVENTS = """
    insert into <event> (job_id, at, event, actor, detail)
    select given.id, <now>, <text:3>, <text:4>, <text:5> from <ids:2> returning id"""
RECORD_EVENTS = Query("record_events", (Now, Ids, Text, Text, Text), text=_RECORD_EVENTS)
# ids and details
_RECORD_DETAILS = """
    insert into <event> (job_id, detail, at, event, actor)
    select <fields:bigint text>, <now>, <text:3>, <text:4> from <rows:2>"""
RECORD_DETAILS = Query("record_details", (Now, Json, Text, Text), text=_RECORD_DETAILS)
_RESCHEDULE = """
    update <job> as job set run_at = chosen.due, held = null, unfit = null,
      deadline_at = case when job.lease = 0 then <least:job.deadline_at, <time:5>> + (chosen.due - job.run_at)
                         else job.deadline_at end,
      status = case when job.status = <blocked> then job.status
                    when chosen.due > chosen.now then <to:reschedule> else <to:stage> end
    from (select now, coalesce(<time:3>, now + <interval:4>) as due
          from (select <now> as now) as clock) as chosen
    where job.id <in_ids:2> returning id, <ms:run_at>"""
RESCHEDULE = Query("reschedule", (Now, Ids, Ms, Int, Ms), row_as(Moved), notifies=always_notify, text=_RESCHEDULE)
SET_PRIORITY = Query("set_priority", (Ids, Int), text="update <job> set priority = <int:2> where id <in_ids:1>")

# job, payload, limits, queue, priority, attempts, timeout, retry, whether the tags change, tags, expiry; null keeps
_EDIT = """
    update <job> set payload = coalesce(<json:3>, payload), limits = coalesce(<text:4>, limits),
      queue = coalesce(<text:5>, queue), priority = coalesce(<int:6>, priority),
      max_attempts = coalesce(<int:7>, max_attempts), timeout = coalesce(<real:8>, timeout),
      retry = coalesce(<text:9>, retry), tags = case when <int:10> = 1 then <json:11> else tags end,
      expires_at = coalesce(<time:12>, <now> + <interval:13>, expires_at), held = null, unfit = null
    where id = <bigint:2>"""
EDIT = Query(
    "edit",
    (Now, Int, Text, Text, Text, Int, Int, Float, Text, Int, Text, Ms, Int),
    notifies=always_notify,
    text=_EDIT,
)
_SHARE = """
    update <job> set fair = <text:2>, weight = <int:3>, ordered = <text:4>, order_blocks = <int:5>
    where id = <bigint:1>"""
SHARE = Query("share", (Int, Text, Int, Text, Int), text=_SHARE)
LIMITS_OF = Query("limits_of", (Int,), limits_from_row, text="select limits from <job> where id = <bigint:1>")
DROP_TAGS = Query("drop_tags", (Int,), text="delete from <job_tag> where job_id = <bigint:1>")
_ADD_TAGS = """
    insert into <job_tag> (tag, job_id, status)
    select given.item, job.id, job.status from <job> as job cross join <texts:2> where job.id = <bigint:1>"""
ADD_TAGS = Query("add_tags", (Int, Json), text=_ADD_TAGS)

# a pause that exists stays as it is
_PAUSE = """
    insert into <pause> (kind, name, actor, at) values (<text:2>, <text:3>, <text:4>, <now>)
    on conflict (kind, name) do update set kind = excluded.kind
    returning kind, name, actor, <ms:at>"""
PAUSE = Query("pause", (Now, Text, Text, Text), paused_from_row, text=_PAUSE)
_RESUME = "delete from <pause> where kind = <text:1> and name = <text:2> returning name"
RESUME = Query("resume", (Text, Text), notifies=bool, text=_RESUME)
PAUSED = Query("paused", (), paused_from_row, text="select kind, name, actor, <ms:at> from <pause> order by kind, name")

# Everything but workers, waiters and the settings of the queue. Jobs come first: that is the order of locks, and takes
# the rows with it that belong to one job.
_CLEARED = (
    "job", "ready", "claim", "served", "step", "signal", "stream", "log", "edge", "slot", "start", "opening",
    "limit_hold", "breaker", "outcome", "tally", "total", "history", "change", "audit", "note", "blob_pin", "pause",
    "schedule", "finding", "alert", "batch", "batch_tally", "parent_check",
)  # fmt: skip
CLEAR = tuple(Query(f"clear_{table}", text=f"delete from <{table}>") for table in _CLEARED)
RESTART_IDS = Query("restart_ids")

# encrypt again: each row in turn, and only as it was read
_TEXTS_OF_JOBS = """
    select id, <text_of:payload>, <text_of:result>, error_detail, traceback, progress_message, <text_of:type> from <job>
    where id > <bigint:1> order by id limit <int:2>"""
TEXTS_OF_JOBS = Query("texts_of_jobs", (Int, Int), texts_from_row(Texts), text=_TEXTS_OF_JOBS)
_REKEY_JOB = """
    update <job> set payload = <json:2>, result = <json:3>, error_detail = <text:4>, traceback = <text:5>,
      progress_message = <text:6>
    where id = <bigint:1> and payload = <json:7> and <same:result, <json:8>> and <same:error_detail, <text:9>>
      and <same:traceback, <text:10>> and <same:progress_message, <text:11>>
    returning id"""
REKEY_JOB = Query("rekey_job", (Int, *[Text] * 10), number_from_row, text=_REKEY_JOB)
_TEXTS_OF_ATTEMPTS = """
    select attempt.id, attempt.error_detail, attempt.traceback, <text_of:job.type>
    from <attempt> as attempt join <job> as job on job.id = attempt.job_id
    where attempt.id > <bigint:1> order by attempt.id limit <int:2>"""
TEXTS_OF_ATTEMPTS = Query("texts_of_attempts", (Int, Int), texts_from_row(History), text=_TEXTS_OF_ATTEMPTS)
_REKEY_ATTEMPT = "update <attempt> set error_detail = <text:2>, traceback = <text:3> where id = <bigint:1>"
REKEY_ATTEMPT = Query("rekey_attempt", (Int, Text, Text), text=_REKEY_ATTEMPT)
_REKEY_SCHEDULE = "update <schedule> set payload = <json:2> where name = <text:1> and payload = <json:3>"
REKEY_SCHEDULE = Query("rekey_schedule", (Text, Text, Text), text=_REKEY_SCHEDULE)
_TEXTS_OF_STEPS = """
    select step.job_id, step.position, <text_of:step.result>, step.error_detail, <text_of:step.question>,
           <text_of:job.type>, step.kind, step.name
    from <step> as step join <job> as job on job.id = step.job_id
    where (step.job_id, step.position) > (<bigint:1>, <int:2>) order by step.job_id, step.position limit <int:3>"""
TEXTS_OF_STEPS = Query("texts_of_steps", (Int, Int, Int), row_as(StepTexts), text=_TEXTS_OF_STEPS)
_REKEY_STEP = """
    update <step> set result = <json:3>, error_detail = <text:4>, question = <json:5>
    where job_id = <bigint:1> and position = <int:2>
      and <same:result, <json:6>> and <same:error_detail, <text:7>> and <same:question, <json:8>>
    returning job_id"""
REKEY_STEP = Query("rekey_step", (Int, Int, *[Text] * 6), number_from_row, text=_REKEY_STEP)
_TEXTS_OF_SIGNALS = """
    select signal.id, signal.job_id, <text_of:signal.value>, <text_of:job.type>
    from <signal> as signal join <job> as job on job.id = signal.job_id
    where signal.id > <bigint:1> order by signal.id limit <int:2>"""
TEXTS_OF_SIGNALS = Query("texts_of_signals", (Int, Int), row_as(SignalText), text=_TEXTS_OF_SIGNALS)
REKEY_SIGNAL = Query("rekey_signal", (Int, Text), text="update <signal> set value = <json:2> where id = <bigint:1>")
_TEXTS_OF_STREAMS = """
    select stream.job_id, stream.number, stream.value, <text_of:job.type>
    from <stream> as stream join <job> as job on job.id = stream.job_id
    where (stream.job_id, stream.number) > (<bigint:1>, <int:2>) order by stream.job_id, stream.number limit <int:3>"""
TEXTS_OF_STREAMS = Query("texts_of_streams", (Int, Int, Int), row_as(StreamText), text=_TEXTS_OF_STREAMS)
_REKEY_STREAM = "update <stream> set value = <text:3> where job_id = <bigint:1> and number = <int:2>"
REKEY_STREAM = Query("rekey_stream", (Int, Int, Text), text=_REKEY_STREAM)
_TEXTS_OF_LOGS = """
    select log.job_id, log.lease, log.lines, <text_of:job.type>
    from <log> as log join <job> as job on job.id = log.job_id
    where (log.job_id, log.lease) > (<bigint:1>, <bigint:2>) order by log.job_id, log.lease limit <int:3>"""
TEXTS_OF_LOGS = Query("texts_of_logs", (Int, Int, Int), row_as(LogText), text=_TEXTS_OF_LOGS)
_REKEY_LOG = """
    update <log> set lines = <text:3> where job_id = <bigint:1> and lease = <bigint:2> and lines = <text:4>
    returning job_id"""
REKEY_LOG = Query("rekey_log", (Int, Int, Text, Text), number_from_row, text=_REKEY_LOG)
# references of jobs to blobs that neither the job nor its steps and signals name any more
_NAMES_IT = "like '%' || digest || '%'"
_DROP_OLD_REFERENCES = f"""
    delete from <blob_ref> where job_id <in_ids:1>
      and not exists (select 1 from <job> where id = job_id
                      and (<text_of:payload> {_NAMES_IT} or <text_of:result> {_NAMES_IT}))
      and not exists (select 1 from <step> as step where step.job_id = <blob_ref>.job_id
                      and <text_of:step.result> {_NAMES_IT})
      and not exists (select 1 from <signal> as signal where signal.job_id = <blob_ref>.job_id
                      and <text_of:signal.value> {_NAMES_IT})"""
DROP_OLD_REFERENCES = Query("drop_old_references", (Ids,), text=_DROP_OLD_REFERENCES)
