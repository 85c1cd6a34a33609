"""Ends: how attempts, and jobs that have no claim, are written when they end.

The contract
------------
* **Take, then write.** The end of an attempt deletes its claim, by id, lease and holder, and then writes the jobs whose
  claims were deleted. So of two transactions that end one attempt, one finds no claim, and writes nothing.
* **The lease.** The end of an attempt adds two to the job's lease, any other end adds one.
* **Follow-ups.** The statements that end jobs return whether any of them is followed: it has a follow-up, or is in a
  batch. For SQLite's settles, indexes say so.
* **Ready rows.** The end of an attempt that leaves its job pending writes the ready row (`MAKE_READY`), not a trigger.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple, cast

import msgspec

from rowcall.domain.fingerprint import DIGITS, MOST_REFUSALS
from rowcall.store.columns import text
from rowcall.store.queries.claims import EndedClaim, InUse, ids_or_none
from rowcall.store.queries.flows import Touched
from rowcall.store.schema import EXPIRES_OUTSIDE, HAS_DEADLINE, NO_CLAIM
from rowcall.store.statement import (
    Ids,
    Int,
    Json,
    Now,
    Packed,
    Query,
    Row,
    Text,
    always_notify,
    number_from_row,
    row_as,
)

_FILE, _SERVER = ("sqlite",), ("postgres", "mysql")


class Owner(NamedTuple):
    """A worker, and the number of its start."""

    worker: str
    holder: int


class Settlement(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A transition ready to be written, with what only the claim knew.

    Ages are counted back from the database's clock.
    """

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
    unfit: str | None = None
    """The fingerprint of the declaration that the arguments do not fit."""
    run_at_ms: int | None = None
    """When it runs again, instead of after `delay_ms`."""
    progress: float | None = None
    progress_message: str | None = None
    replays: int = 0
    """Whether the progress may only repeat that of an earlier attempt: skipped if the job has steps."""
    worker: str = ""
    claimed_at_ms: int | None = None
    started_at_ms: int | None = None


class Success(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The settlement of an attempt that succeeded: the most frequent one, and so the shortest.

    One row can settle several jobs with consecutive ids, whose attempts ended the same way.
    """

    id: int
    lease: int
    claimed_at_ms: int
    started_age_ms: int | None
    finished_age_ms: int
    result: str | None
    count: int = 1

    @property
    def ids(self) -> range:
        return range(self.id, self.id + self.count)

    def of(self, job_id: int) -> Success:
        """Return the row of one of its jobs."""
        ages = self.claimed_at_ms, self.started_age_ms, self.finished_age_ms
        return Success(job_id, self.lease, *ages, self.result)


def ids_of(rows: Iterable[Success]) -> list[int]:
    return [*chain.from_iterable([row.ids for row in rows])]


def runs_of(rows: Iterable[Success]) -> list[tuple[int, int, int]]:
    """Return the first id, the lease, and how many consecutive ids have it.

    >>> runs_of([Success(7, 1, 0, 0, 0, "1"), Success(8, 1, 0, 0, 0, "2", 2), Success(10, 3, 0, 0, 0, None)])
    [(7, 1, 3), (10, 3, 1)]
    """
    runs: list[tuple[int, int, int]] = []
    first_id = lease = count = 0
    for row in rows:
        if row.lease == lease and row.id == first_id + count:
            count += row.count
        else:
            runs.append((first_id, lease, count))
            first_id, lease, count = row.id, row.lease, row.count
    return [*runs[1:], (first_id, lease, count)]


def ids_and_followed(row: Row) -> tuple[list[int] | None, bool]:
    """Return the ids that were settled, or None for all of them; and whether any of them has a follow-up."""
    return cast("tuple[list[int] | None, bool]", row)


def flag_from_row(row: Row) -> bool:
    return bool(row[0])


class Overdue(NamedTuple):
    job_id: int
    detail: str
    type: str
    queue: str


def detail_from_row(row: Row) -> tuple[int, str]:
    """Return an id and a text about its job."""
    return cast("tuple[int, str]", row)


def refusal_from_row(row: Row) -> tuple[int, str | None, str | None]:
    """Return the id of a job, and the text and the code of its last error."""
    return cast("int", row[0]), text(row[1]), text(row[2])


def in_use_from_row(row: Row) -> InUse:
    return InUse(*map(bool, row))


def lease_from_row(row: Row) -> tuple[int, int, str, int | None]:
    """Return the id, the lease, the status and the batch of a job."""
    return cast("tuple[int, int, str, int | None]", row)


def of_claim(job: str) -> str:
    """Return what the end of a job that still runs takes from its claim. Other jobs keep what they have."""
    return ", ".join(
        f"{name} = coalesce((select claim.{name} from <claim> as claim where claim.job_id = {job}.id), {job}.{name})"
        for name in ("attempt", "worker", "claimed_at", "started_at")
    )


def also_unfit(listed: str, refused: str) -> str:
    """Return the fingerprints that have refused a job, the last one first, each of them once."""
    longest = MOST_REFUSALS * (DIGITS + 1) - 1
    return f"""case when {refused} is null or {listed} like '%' || {refused} || '%' then {listed}
                   else substr({refused} || coalesce(',' || {listed}, ''), 1, {longest}) end"""


# attempts: delete the claims of these fences, and return what they knew. SQLite deletes by a second statement.
TAKE = Packed("take", (Json,), EndedClaim)
DROP_CLAIMS = Query("drop_claims", (Json,), only=_FILE)
# lock the claims of these fences and their jobs; return the ids that another transaction has locked
LOCK_VOID = Query("lock_void", (Json,), number_from_row, only=_SERVER)
# The claims of a holder, by ids and leases, all of which are nearly always there: null then, else the ids that were.
TAKE_ALL = Query("take_all", (Ids, Ids, Int), ids_or_none, only=("postgres",))
# `runs_of` rows, and the holder
TAKE_RUNS = Query("take_runs", (Json, Int), only=_FILE)
# of the jobs of such runs, the ones that the holder has
STILL_HELD = Packed("still_held", (Json, Int), int, only=_FILE)
SAVEPOINT = Query("settle_savepoint", text="savepoint rowcall_settle", only=_FILE)
BACK_TO_SAVEPOINT = Query("back_to_settle", text="rollback to rowcall_settle", only=_FILE)
CHANGES = Query("changes", (), number_from_row, only=_FILE)

# Of attempts (ids and leases) whose claims were taken: the jobs that are still as the claims found them, locked.
LIVE = Packed("live", (Json,), int)
# ids, and {id: Settlement}; a server returns which of them are followed
RECORD_ATTEMPTS = Query("record_attempts", (Now, Ids, Json))
SETTLE = Query("settle", (Now, Ids, Json), flag_from_row)
SETTLE_AND_NOTIFY = Query("settle", (Now, Ids, Json), flag_from_row, notifies=always_notify)
# successes whose claims were taken: rows, worker; or ids, leases, times of the claims, ages, results (a JSON array, or
# null if there are none), worker
SETTLE_SUCCESSES = Query("settle_successes", (Now, Json, Text), only=("sqlite", "mysql"), is_long=True)
SETTLE_ALL = Query("settle_all", (Now, Ids, Ids, Ids, Ids, Ids, Text, Text), ids_and_followed, only=("postgres",))
# In a caller's transaction, each of whose statements may be a transaction: job, lease, holder, result, age, and 1 with
# the message if its handler has reported progress. A server takes the claim and writes the job by one statement. SQLite
# writes the job first: no job has neither claim nor end. Both return whether it is followed, and no row if the claim is
# not current.
COMPLETE = Query("complete", (Now, Int, Int, Int, Text, Int, Int, Text), flag_from_row)
DROP_CLAIM = Query("drop_claim", (Int, Int, Int), only=_FILE)
# what became of attempts that were completed in such transactions: the state of their jobs, and which claims and jobs
# no other transaction has locked
_LEASES = "select id, lease, status, batch_id from <job> where id <in_ids:1>"
LEASES = Query("leases", (Ids,), lease_from_row, text=_LEASES)
_LOCK_FREE_CLAIMS = "select job_id from <claim> where job_id <in_ids:1> order by job_id <for_update> <skip_locked>"
LOCK_FREE_CLAIMS = Query("lock_free_claims", (Ids,), number_from_row, text=_LOCK_FREE_CLAIMS)
_LOCK_FREE_JOBS = "select id from <job> where id <in_ids:1> order by id <for_update> <skip_locked>"
LOCK_FREE_JOBS = Query("lock_free_jobs", (Ids,), number_from_row, text=_LOCK_FREE_JOBS)
IN_USE = Query("in_use", (), in_use_from_row)

# jobs without a claim: find and lock them, with the detail of their error, then end them
_EXPIRED = "'not started by ' || <shown:expires_at>"
_FIND_EXPIRED = f"""
    select id, {_EXPIRED} from <job> <indexed:job_expiry> where {EXPIRES_OUTSIDE} and expires_at <= (select <now>)
    order by expires_at limit <int:2> <for_update> <skip_locked>"""
FIND_EXPIRED = Query("find_expired", (Now, Int), detail_from_row, text=_FIND_EXPIRED)
FIND_EXPIRED_READY = Query("find_expired_ready", (Now, Int), detail_from_row)
# jobs whose deadline has passed, with the text about it, the task and the queue: not ready, or ready
OVERDUE = "'not finished by ' || <shown:job.deadline_at>, <text_of:job.type>, <text_of:job.queue>"
_FIND_OVERDUE = f"""
    select job.id, {OVERDUE} from <job> as job <indexed:job_deadline>
    where {HAS_DEADLINE} and (status = <scheduled> or held is not null) and deadline_at <= (select <now>) and {NO_CLAIM}
    order by deadline_at limit <int:2> <for_update> <skip_locked>"""
FIND_OVERDUE = Query("find_overdue", (Now, Int), row_as(Overdue), text=_FIND_OVERDUE)
FIND_OVERDUE_READY = Query("find_overdue_ready", (Now, Int), row_as(Overdue))
# ids, the status in which they end, the only one that they may have (or null), the code of the error, its details by
# id, the result, and what follows if the row does not say
END_WAITING = Query("end_waiting", (Now, Ids, Text, Text, Text, Json, Text, Text), row_as(Touched))
# of attempts that are ended from outside: their claims are locked
_DROP_LOCKED = "delete from <claim> where job_id <in_ids:1>"
DROP_LOCKED_CLAIMS = Query("drop_locked_claims", (Ids,), text=_DROP_LOCKED)
_ADD_ON_END = """
    update <job> as job set on_end = <json:2> where id <in_rows>
      select id from <job> where id <in_ids:1> and on_end is null order by id <for_update> <end_rows>
    returning id"""
ADD_ON_END = Query("add_on_end", (Ids, Text), text=_ADD_ON_END)
# Whether any job between two ids is followed. The follow-ups of those of some jobs that have ended: their ids; a
# row of which nothing can be made has none. Then what they need of the blobs of these jobs.
ANY_FOLLOWED = Query("any_followed", (Int, Int), flag_from_row, only=("sqlite", "mysql"))
FOLLOW_UP = Query("follow_up", (Now, Ids), number_from_row, notifies=bool)
KEEP_BLOBS = Query("keep_blobs", (Ids,))
# queue, key, for how many milliseconds a job must have been due and not attempted, how many jobs to return
FIND_UNKNOWN = Query("find_unknown", (Now, Text, Text, Int, Int), refusal_from_row)
