"""Jobs: enqueue, claim, settle and inspect.

The contract
------------
* **Fence.** `lease` goes up at claim, settle, release and recovery, and never falls. Every write that a worker makes
  about a job matches `id` and `lease` together and nothing else, and returns the ids that it changed.
* **Skipped.** Statements that stage, expire, claim or recover lock the rows that they return, and leave rows that
  another transaction has locked to it.
* **Cost.** Staging, claiming, settling and recovering cost in proportion to the rows they touch, however many jobs
  wait, have finished or lie in the future.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, cast

import msgspec

from rowcall.base.times import EPOCH
from rowcall.domain.job import Attempt, Event
from rowcall.store.columns import job_from_row, secret_of, struct_from_row, text, time
from rowcall.store.new_job import Inserted
from rowcall.store.queries.flows import Touched
from rowcall.store.schema import IS_CLAIMED, READY_COLUMNS, READY_ROW, WRITE_CLAIM
from rowcall.store.statement import (
    Change,
    Float,
    Ids,
    Int,
    Json,
    Ms,
    Now,
    Packed,
    Query,
    Row,
    Text,
    always_notify,
    number_from_row,
    row_as,
    text_from_row,
)

_FILE, _SERVER = ("sqlite",), ("postgres",)


class Ready(msgspec.Struct, array_like=True, gc=False):
    """A job that may be claimed. `lease` and `attempt` are those it will have once claimed."""

    id: int
    type: str
    queue: str
    payload: str
    max_attempts: int
    priority: int
    run_at_ms: int
    created_at_ms: int
    timeout_seconds: float | None
    retry: str | None
    trace_context: str | None
    is_plain: bool = True
    """Whether it was never claimed, and has no option that others ask for, such as a key or tags.

    SQLite then returns nothing of what follows.
    """
    attempt: int = 1
    lease: int = 1
    lost: int = 0
    key: str | None = None
    tags: str | None = None
    chain_id: int | None = None
    chain_index: int | None = None
    expires_at_ms: int | None = None
    limits: str | None = None
    target: str | None = None
    turn: int | None = None
    """Orders the jobs of one queue and priority; the id, if there is none."""
    fair: str | None = None
    ordered: str | None = None
    row: str | None = None
    """The row in the table of ready jobs, as PostgreSQL names it."""
    error_code: str | None = None
    error_detail: str | None = None
    """The last error of its earlier attempts."""

    def waited_ms(self, claimed_at_ms: int) -> int:
        """Return how long it was due when it was claimed: since `run_at`, or since it was written if that is later."""
        since, written = self.run_at_ms, self.created_at_ms
        return claimed_at_ms - (since if since > written else written)

    def order(self) -> tuple[int, int, int]:
        """Return what claims sort by: its place in the table of ready jobs."""
        return ~self.priority, self.id if self.turn is None else self.turn, self.id

    @property
    def bufferable(self) -> bool:
        """A job that was lost before, or has one attempt left, starts at once or not at all."""
        return self.lost == 0 and self.attempt < self.max_attempts


_IS_PLAIN = attrgetter("is_plain")
_FAIR = attrgetter("fair")


def all_plain(jobs: Iterable[Ready]) -> bool:
    # not a generator: what is done for each claimed job is a part of each drain
    return all(map(_IS_PLAIN, jobs))


def any_fair(jobs: Iterable[Ready]) -> bool:
    return not {None}.issuperset(map(_FAIR, jobs))


Places = Mapping[tuple[str, str], tuple[int, int, int] | None]
"""For queues and types of ready jobs: the place behind which to search in the table of ready jobs, if it is known."""
START = (-(2**63),) * 3
NOTHING_KNOWN: Places = MappingProxyType({})


class ClaimRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A run of ids that a worker claimed together; `is_old` if the claim should be written into the jobs' own rows."""

    id: int
    first_id: int
    last_id: int
    claimed_at_ms: int
    is_old: bool


class Claimed(NamedTuple):
    """What the row of a job that was claimed together with others does not say."""

    worker: str
    claimed_at_ms: int


class Work(msgspec.Struct, frozen=True):
    """What there is to do, read without the write lock."""

    now_ms: int
    due_at_ms: int | None
    expires_at_ms: int | None
    registered: bool
    ready: Places
    wake_at_ms: int | None = None
    """When the next schedule or rate limit must be checked."""
    paused: list[tuple[str, str]] = []
    """What is paused: ("queue", its name) or ("task", its name)."""
    edges_open: bool = False
    edges_unsure: bool = False
    slots: bool = False
    waiters: bool = False
    seconds: float = 0.0
    """How long the server searched for the queues and types of ready jobs."""

    @property
    def concerned(self) -> InUse:
        return InUse(self.edges_open, self.slots, self.waiters)

    @property
    def is_wake_due(self) -> bool:
        return self.wake_at_ms is not None and self.wake_at_ms <= self.now_ms

    @property
    def next_at_ms(self) -> int | None:
        """When something falls due by itself."""
        times = [at for at in (self.due_at_ms, self.expires_at_ms, self.wake_at_ms) if at is not None]
        return min(times) if times else None


class InUse(NamedTuple):
    """Whether any job waits for another, runs under a limit, or has a waiter: mostly none."""

    edges: bool
    slots: bool
    waiters: bool = False


class Peek(NamedTuple):
    """The cheapest check for work: it runs after every commit of another process."""

    now_ms: int
    any_ready: bool
    due_at_ms: int | None
    expires_at_ms: int | None
    wake_at_ms: int | None
    edges_unsure: bool


class Settlement(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A transition ready to be written. Ages are counted back from the database's clock; None keeps what is there."""

    id: int
    lease: int
    status: str
    attempt_status: str
    started_age_ms: int | None
    finished_age_ms: int
    delay_ms: int | None
    attempt_returned: int
    attempt_recorded: int
    result: str | None
    error_code: str | None
    error_detail: str | None
    traceback: str | None
    lost: int
    final: int
    hold_ms: int | None = None
    """How long the job waits for a worker that its arguments fit."""
    run_at_ms: int | None = None
    """When it runs again, instead of after `delay_ms`."""


class Success(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The settlement of an attempt that succeeded: the most frequent one, and so the shortest.

    One row can settle several jobs with consecutive ids, whose attempts ended alike, without a result.
    """

    id: int
    lease: int
    started_age_ms: int | None
    finished_age_ms: int
    result: str | None
    begins_chain: int = 0
    count: int = 1

    @property
    def ids(self) -> range:
        return range(self.id, self.id + self.count)

    def part(self, ids: range, lease: int) -> Success:
        """Return the row for some of its jobs, with another lease."""
        ages = self.started_age_ms, self.finished_age_ms
        return Success(ids.start, lease, *ages, self.result, self.begins_chain, len(ids))


def ids_of(rows: Iterable[Success]) -> list[int]:
    return [*chain.from_iterable([row.ids for row in rows])]


class Mismatch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job that waits for a worker that its arguments fit, until a time."""

    id: int
    queue: str
    type: str
    payload: str
    priority: int
    turn: int
    until_ms: int


_mismatched = msgspec.json.Decoder(list[Mismatch])
_pairs = msgspec.json.Decoder(list[tuple[str, str]])
_found = msgspec.json.Decoder(list[tuple[str, str, tuple[int, int, int] | None]])


_attempt = {
    "attempt": lambda value: value if isinstance(value, int) else 0,
    "status": lambda value: text(value) or "",
    "claimed_at": lambda value: time(value) or EPOCH,
    **dict.fromkeys(("started_at", "finished_at", "next_run_at"), time),
    **dict.fromkeys(("worker", "error_code", "error_detail", "traceback"), text),
}
attempt_from_row = struct_from_row(Attempt, Attempt.__struct_fields__, _attempt)


def event_from_row(row: Row) -> Event:
    at, event, actor, detail, secret = row
    return Event(
        at=time(at) or EPOCH,
        event=text(event) or "",
        actor=text(actor),
        detail=text(detail),
        **secret_of(event, secret),
    )


def inserted_from_row(row: Row) -> Inserted:
    job_id, status, run_at, created_at, expires_at = cast("tuple[int, str, int, int, int | None]", row)
    return Inserted(job_id, status, run_at, created_at, expires_at)


def work_from_row(row: Row) -> Work:
    ready, seconds, now_ms, due_at, expires_at, registered, wake_at, paused, *flags = cast(
        "tuple[str, float, int, int | None, int | None, int, int | None, str, int, int, int, int]", row
    )
    places = {(queue, task): place for queue, task, place in _found.decode(ready)}
    known = (now_ms, due_at, expires_at, bool(registered), places, wake_at, _pairs.decode(paused))
    edges_open, edges_unsure, slots, waiters = map(bool, flags)
    return Work(*known, edges_open, edges_unsure, slots, waiters, seconds)


def detail_from_row(row: Row) -> tuple[int, str]:
    """Return an id and a text about its job."""
    return cast("tuple[int, str]", row)


def in_use_from_row(row: Row) -> InUse:
    return InUse(*map(bool, row))


def peek_from_row(row: Row) -> Peek:
    now_ms, any_ready, due_at, expires_at, wake_at, unsure = cast(
        "tuple[int, int, int | None, int | None, int | None, int]", row
    )
    return Peek(now_ms, bool(any_ready), due_at, expires_at, wake_at, bool(unsure))


def mismatched_from_row(row: Row) -> tuple[int, list[Mismatch]]:
    now_ms, jobs = cast("tuple[int, str]", row)
    return now_ms, _mismatched.decode(jobs)


def lease_from_row(row: Row) -> tuple[int, tuple[int, str]]:
    job_id, lease, status = cast("tuple[int, int, str]", row)
    return job_id, (lease, status)


def any_listener(rows: list[Row]) -> bool:
    return bool(rows[0][-1])


# enqueue. Parameters: the fields of a new job (`fields_of`), then what is derived from its arguments
_NEW_JOB = (Now, Text, Text, Text, Int, Int, Ms, Int, Float, Text, Text, Ms, Int, Text, Text, Text)
INSERT = Query("insert", (*_NEW_JOB, Text, Text, Int, Text, Int), notifies=any_listener)
# type, queue, payload, priority, attempts: a job that is due at once and has no other option
INSERT_PLAIN = Query("insert_plain", (Text, Text, Text, Int, Int), notifies=any_listener)
# payloads as a JSON array; where the last parameter is 1, an array of arrays: the payload, and what is derived from it
INSERT_MANY = Query("insert_many", (*_NEW_JOB, Int), notifies=any_listener)
INSERT_MANY_RETURNING = Query("insert_many_returning", (*_NEW_JOB, Int), inserted_from_row, only=_FILE)
LAST_INSERTED = Query("last_inserted", (), inserted_from_row, only=_FILE)
# after the first one, inserted jobs are not ready until the second one
BEGIN_BULK = Query("begin_bulk", only=_FILE)
MAKE_READY = Query("make_ready", only=_FILE)
END_BULK = Query("end_bulk", only=_FILE)

# claim
FIND_WORK = Query("find_work", (Now, Text), work_from_row)
# the same, and the worker, if it is registered, stays so until the transaction ends
FIND_WORK_AND_LOCK = Query("find_work_and_lock", (Now, Text), work_from_row)
# the same, where the queues and types of ready jobs are known
FIND_OTHER_WORK_AND_LOCK = Query("find_other_work_and_lock", (Now, Text, Json), work_from_row, only=_SERVER)
PEEK = Query("peek", (Now,), peek_from_row)
_STAGE = """
    update <job> as job set status = <to:stage> where id <in_rows>
      select id from <job> <indexed:job_due> where status = <scheduled> and run_at <= (select <now>)
      order by run_at limit <int:2> <for_update> <skip_locked> <end_rows>"""
STAGE = Change("stage", (Now, Int), text=_STAGE)
# jobs without a claim: find and lock them, with the detail of their error, then end them
_FIND_EXPIRED = """
    select id, 'not started by ' || <shown:expires_at> from <job> <indexed:job_expiry>
    where expires_at is not null and attempt = 0 and status in <waiting> and expires_at <= (select <now>)
    order by expires_at limit <int:2> <for_update> <skip_locked>"""
FIND_EXPIRED = Query("find_expired", (Now, Int), detail_from_row, text=_FIND_EXPIRED)
# ids, the status in which they end, the only one that they may have (or null), the code of the error, its details by
# id, the result, and what follows if the row does not say
END_WAITING = Query("end_waiting", (Now, Ids, Text, Text, Text, Json, Text, Text), row_as(Touched))
READY_OF_TYPE = Packed("ready_of_type", (Now, Text, Int, Text, Int, Int, Int), Ready, only=_SERVER)
READY_OF_TYPES = Packed("ready_of_types", (Now, Text, Int, Json), Ready, only=_SERVER)
REST_OF_TYPES = Packed("rest_of_types", (Now, Text, Int, Json), Ready, only=_SERVER)
READY_AHEAD = Packed("ready_ahead", (Now, Text, Int, Json), Ready, only=_SERVER)
# the jobs of locked ready rows, except jobs that another transaction has locked
LOCK_FREE = Query("lock_free", (Ids,), number_from_row, only=_SERVER)
MARK_CLAIMED = Query("mark_claimed", (Now, Text, Ids, Ids, Int, Text), only=_SERVER)
MARK_CLAIMED_ALIKE = Query("mark_claimed_alike", (Now, Text, Ids, Int, Int), only=_FILE)
# errors of earlier attempts, the last one of each job last
_ERRORS_OF = """
    select job_id, error_code, error_detail from <attempt> where job_id <in_ids:1> and error_code is not null
    order by id"""
ERRORS_OF = Query("errors_of", (Ids,), text=_ERRORS_OF)
# ids, and {id: [lease, age]}
MARK_STARTED = Query("mark_started", (Now, Ids, Json))
# ids, and {id: [lease, share, message, age, replays]}; also a heartbeat of each
MARK_PROGRESS = Query("mark_progress", (Now, Ids, Json))
# what a claim leaves of the progress: an attempt of a job with durable steps continues where the last one was
_HAS_PROGRESS = "progress is not null and exists (select 1 from <step> where job_id = job.id)"
KEPT_PROGRESS = ", ".join(
    f"{column} = case when {_HAS_PROGRESS} then {column} end" for column in ("progress", "progress_message")
)

# Jobs that are claimed together: one row for each run of their ids, and their own rows are not written. The first takes
# the worker, and for each run the first id, the last id and whether they started.
INSERT_CLAIMS = Query("insert_claims", (Now, Text, Json), only=_FILE)
# queue, type, rank, and the first and the last id of a run; or the first and the last turn, and the ids
DELETE_READY_RUN = Query("delete_ready_run", (Text, Text, Int, Int, Int), only=_FILE)
DELETE_READY = Query("delete_ready", (Text, Text, Int, Int, Int, Ids), only=_FILE)
CLAIM_TOGETHER = Query("claim_together", (Now, Text, Json, Text), only=_SERVER)
# the first plain jobs of a queue and a type, behind a place
CLAIM_FIRST = Packed("claim_first", (Now, Text, Int, Text, Int, Int, Int, Text), Ready, only=_SERVER)
_CLAIMS_OF = """
    select id, first_id, last_id, <ms:claimed_at>,
           claimed_at <= (select <now>) - <interval:3> or claimed_at > (select <now>)  -- the clock was set back
    from <claim> where worker = <text:2> order by id"""
CLAIMS_OF = Query("claims_of", (Now, Text, Int), row_as(ClaimRow), text=_CLAIMS_OF)
_CLAIMED_OF = "select id from <prefix>claimed as claimed where claimed.worker = <text:1>"
CLAIMED_OF = Query("claimed_of", (Text,), number_from_row, text=_CLAIMED_OF)
# To write claims into the jobs' own rows: of some jobs, where the first waits for rows that others have locked; of some
# claims, of a worker, of workers that are gone. What others have locked keeps its claim row.
LOCK_READY_OF = Query("lock_ready_of", (Ids,), only=_SERVER)
WRITE = f"update <job> as job set {WRITE_CLAIM} from <claim> as claim where {IS_CLAIMED}"
IS_GONE = "not exists (select 1 from <worker> as worker where worker.name = claim.worker)"
WRITE_CLAIMS_OF_JOBS = Query("write_claims_of_jobs", (Ids,), text=f"{WRITE} and job.id <in_ids:1> returning 1")
WRITE_FREE_CLAIMS_OF_JOBS = Query("write_free_claims_of_jobs", (Ids,))
WRITE_CLAIMS = Query("write_claims", (Ids,))
WRITE_CLAIMS_OF_WORKER = Query("write_claims_of_worker", (Text,))
WRITE_CLAIMS_OF_GONE = Query("write_claims_of_gone")
CLAIMS_LEFT = Query("claims_left", (Ids,), text="select id from <claim> where id <in_ids:1>")
DELETE_CLAIMS = Query("delete_claims", (Ids,), text="delete from <claim> where id <in_ids:1>")
# the claims that have no job left; the last ids end last
_DELETE_DONE = """
    delete from <claim> as claim where (
      select 1 from <job> as job where job.id between first_id and last_id
        and job.lease = 0 and <by_id:job.status> = <pending> and <by_id:job.held> is null
      order by job.id desc limit 1) is null and"""
DELETE_DONE_CLAIMS = Query("delete_done_claims", (Ids,), text=f"{_DELETE_DONE} id <in_ids:1>")
DELETE_DONE_OF_WORKER = Query("delete_done_of_worker", (Text,), text=f"{_DELETE_DONE} worker = <text:1>")
DELETE_DONE_OF_GONE = Query("delete_done_of_gone", text=f"{_DELETE_DONE} {IS_GONE}")

# Ready rows without a job that may be claimed, and such jobs without a row: only where plain SQL changed the lease, or
# where triggers were switched off.
OF_JOB = """job.queue = ready.queue and job.type = ready.type and ~job.priority = ready.rank
        and coalesce(job.turn, job.id) = ready.turn and job.id = ready.id"""
_IS_STALE = f"""not exists (
      select 1 from <job> as job where {OF_JOB} and job.status = <pending> and job.held is null)"""
_DROP_STALE = f"""
    delete from <ready> where (queue, type, rank, turn, id) in (
      select queue, type, rank, turn, id from (
        select * from <ready> where queue = <text:1> and type = <text:2> order by rank, turn, id limit <int:3>
      ) as ready where {_IS_STALE})"""
DROP_STALE = Change("drop_stale", (Text, Text, Int), text=_DROP_STALE)
LOCK_READY = Query("lock_ready", (), only=_SERVER)
DROP_ALL_STALE = Query("drop_all_stale", text=f"delete from <ready> as ready where {_IS_STALE}")
_ADD_MISSING = f"""
    insert into <ready> {READY_COLUMNS} select {READY_ROW.format("job")} from <job> as job
    where status = <pending> and held is null and not exists (select 1 from <ready> as ready where {OF_JOB})
      and not exists (select 1 from <claim> as claim where {IS_CLAIMED})"""
ADD_MISSING = Query("add_missing", text=_ADD_MISSING)

# jobs that a worker refused because their arguments do not fit its declaration: held until one that fits comes
MISMATCHED = Query("mismatched", (Now, Int, Int), mismatched_from_row)
OFFERED_JOBS = Packed("offered_jobs", (Now, Ids), Ready)
_STILL_MISMATCHED = "id <in_ids:2> and status = <pending> and <by_id:held> = 'mismatch'"
_EXTEND_MISMATCHED = f"""
    update <job> set held_until = <now> + <interval:3> where id <in_rows>
      select id from <job> where {_STILL_MISMATCHED} <for_update> <skip_locked> <end_rows>"""
EXTEND_MISMATCHED = Query("extend_mismatched", (Now, Ids, Int), text=_EXTEND_MISMATCHED)
_ADD_ON_END = """
    update <job> as job set on_end = <json:2> where id <in_rows>
      select id from <job> where id <in_ids:1> and on_end is null order by id <for_update> <end_rows>
    returning id"""
ADD_ON_END = Query("add_on_end", (Ids, Text), text=_ADD_ON_END)
_FIND_OVERDUE = f"""
    select id, coalesce(error_detail || '; ', '') || 'no worker that fits claimed the job in time'
    from <job> where {_STILL_MISMATCHED} and coalesce(held_until, run_at) <= (select <now>)
    order by id <for_update> <skip_locked>"""
FIND_OVERDUE = Query("find_overdue", (Now, Ids), detail_from_row, text=_FIND_OVERDUE)
# queue, task, how many milliseconds a job must have been due, how many jobs to look at
FIND_UNKNOWN = Query("find_unknown", (Now, Text, Text, Int, Int), number_from_row)
# whether jobs of a queue and task are claimed by hand now, or some succeeded in the last milliseconds
IS_CONSUMED = Query("is_consumed", (Now, Text, Text, Int), number_from_row)

# settle
# Three parameters: worker and time of a claim that the rows do not say, and what to add to the lease.
# the last one is the lease that all rows must have
SETTLE_PACKED = Query("settle_packed", (Now, Json, Text, Ms, Int, Int), only=_FILE, is_long=True)
SETTLE_SUCCESSES = Query("settle_successes", (Now, Json, Text, Ms, Int), only=_FILE, is_long=True)
SAVEPOINT = Query("savepoint", only=_FILE)
BACK_TO_SAVEPOINT = Query("back_to_savepoint", only=_FILE)
CHANGES = Query("changes", (), number_from_row, only=_FILE)
# these return the ids of the changed jobs, or null if all were changed
SETTLE_PLAIN = Query("settle_plain", (Now, Ids, Ids, Ids, Ids, Text, Ms, Int), only=_SERVER)
SETTLE_WITH_RESULTS = Query("settle_with_results", (Now, Ids, Json, Text, Ms, Int), only=_SERVER)
# jobs that were claimed together, by the first and the last id of a run; the last parameter is how many there are
SETTLE_RUN = Query("settle_run", (Now, Int, Int, Ids, Ids, Text, Ms, Int), only=_SERVER)
# attempts (ids and leases) that are still current, locked until the transaction ends
LIVE = Packed("live", (Json,), int)
# ids, and {id: Settlement}
RECORD_ATTEMPTS = Query("record_attempts", (Now, Ids, Json))
SETTLE_OTHERS = Query("settle_others", (Now, Ids, Json))
SETTLE_OTHERS_AND_NOTIFY = Query("settle_others", (Now, Ids, Json), notifies=always_notify)
# one plain statement: it may run in the caller's transaction
COMPLETE = Query("complete", (Now, Int, Int, Text, Int))
_HEARTBEAT = """
    update <job> as job set heartbeat_at = moment.now, lease_ms = coalesce(<bigint:4>, lease_ms),
      lease_until = case when lease_until is not null then moment.now + <span:coalesce(<bigint:4>, lease_ms)> end
    from (select <now> as now) as moment where id = <bigint:2> and lease = <bigint:3> returning id"""
HEARTBEAT = Query("heartbeat", (Now, Int, Int, Int), text=_HEARTBEAT)
# the attempt belongs to a target, and no longer to the worker that delivered it: the name, and for how long. Its lease
# stays the same: the target may be about to settle it.
_LEAVE_OPEN = """
    update <job> as job set worker = <text:4>, heartbeat_at = moment.now, lease_ms = <bigint:5>,
      lease_until = moment.now + <interval:5>
    from (select <now> as now) as moment where id = <bigint:2> and lease = <bigint:3> returning id"""
LEAVE_OPEN = Query("leave_open", (Now, Int, Int, Text, Int), text=_LEAVE_OPEN)
EXISTING = Query("existing", (Ids,), number_from_row, text="select id from <job> where id <in_ids:1>")
_LOCK_LEASES = "select id, lease, status from <job> where id <in_ids:1> <for_update> <skip_locked>"
LOCK_LEASES = Query("lock_leases", (Ids,), lease_from_row, text=_LOCK_LEASES)
IN_USE = Query("in_use", (), in_use_from_row)

# the status that is kept with the tags of a job; PostgreSQL has a trigger for that
ANY_TAG = Query("any_tag", (), number_from_row, only=_FILE)
RETAG = Query("retag", (Ids,), only=_FILE)
RETAG_DUE = Query("retag_due", (Now, Int), only=_FILE)

# notifies idle workers when the transaction commits
NOTIFY = Query("notify", only=_SERVER)
# the same, in a separate transaction
NOTIFY_ALONE = Query("notify_alone", only=_SERVER)

# callers' connections
SCHEMA_OF_TABLES = Query("schema_of_tables", (), text_from_row, only=_SERVER)
# server, database and table, then 'text', 7 and 0.5 as the codecs of the connection return them; what is missing is 0
IDENTITY = Query("identity", only=_SERVER)

# inspect
GET = Query("get", (Int,), job_from_row, text="select <job_columns> from <prefix>jobs as job where id = <bigint:1>")
_TRACE_CONTEXT = "select coalesce(trace_context, '') from <job> where id = <bigint:1>"
TRACE_CONTEXT = Query("trace_context", (Int,), text_from_row, text=_TRACE_CONTEXT)
# the first job from an id on, and when it was created
_FIRST_FROM = "select id, <ms:created_at> from <job> where id >= <bigint:1> order by id limit 1"
FIRST_FROM = Query("first_from", (Int,), lambda row: cast("tuple[int, int]", row), text=_FIRST_FROM)
_ATTEMPTS = """
    select job_id, attempt, status, <ms_or_null:claimed_at>, <ms_or_null:started_at>, <ms_or_null:finished_at>,
           worker, error_code, error_detail, traceback, <ms_or_null:next_run_at>,
           (select <text_of:type> from <job> where id = <bigint:1>)
    from <prefix>attempts where job_id = <bigint:1> order by seq desc limit <bigint:2>"""
ATTEMPTS = Query("attempts", (Int, Int), attempt_from_row, text=_ATTEMPTS)  # the last first, up to a number
_TIMELINE = """
    select <ms_or_null:at>, event, actor, detail, secret
    from <prefix>timeline where job_id = <bigint:1> order by at desc, seq desc, rank desc limit <bigint:2>"""
TIMELINE = Query("timeline", (Int, Int), event_from_row, text=_TIMELINE)  # likewise
# the first scheduled jobs that are due: a worker makes them ready with its next claim, so a busy one leaves them
MOST_DUE = 2000
_FIRST_DUE = f"""(
      select queue, type, ~priority as rank, coalesce(turn, id) as turn, id, held from <job> <indexed:job_due>
      where status = <scheduled> and run_at <= (select <now>) order by run_at limit {MOST_DUE}) as due
      where due.queue = <text:2> and due.held is null"""
# the tasks of the ready and due jobs of a queue; it hops from one ready task to the next
_TYPES_IN_TURN = f"""
    with recursive found (type) as (
      select min(type) from <ready> where queue = <text:2>
      union all
      select (select min(type) from <ready> where queue = <text:2> and type > found.type)
      from found where found.type is not null)
    select <text_of:type> from found where type is not null
    union
    select <text_of:type> from {_FIRST_DUE}"""
TYPES_IN_TURN = Query("types_in_turn", (Now, Text), text_from_row, text=_TYPES_IN_TURN)
# of a queue and some tasks, how many ready and due jobs come before a rank, turn and id, by priority: up to a number
_AHEAD = f"""
    select ~rank, count(*) from (
      select ready.rank from <texts:3> cross join <ready> as ready
      where ready.queue = <text:2> and ready.type = given.item
        and (ready.rank, ready.turn, ready.id) < (<bigint:4>, <bigint:5>, <bigint:6>)
      union all
      select due.rank from {_FIRST_DUE} and due.type <in_texts:3>
        and (due.rank, due.turn, due.id) < (<bigint:4>, <bigint:5>, <bigint:6>)
      limit <int:7>) as ahead
    group by rank order by rank"""
AHEAD = Query("ahead", (Now, Text, Json, Int, Int, Int, Int), lambda row: cast("tuple[int, int]", row), text=_AHEAD)
DELETE = Query("delete", (Ids,), text="delete from <job> where id <in_ids:1>")
