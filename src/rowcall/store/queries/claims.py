"""Claims: which jobs may run, and who holds them.

The contract
------------
* **One row for each claim.** A job is claimed while it has a row in the table of claims, whose key is the job's id. So
  two claims of one job at the same time are impossible. A claim writes nothing into the job's own row.
* **Fence.** A claim has a lease and a holder. Every write about an attempt matches the job's id and both of them. The
  lease is one more than that of the job's row. It goes up at each claim and each end, and never falls. The holder is a
  random number of the worker's start, or of the claim by hand.
* **Order of locks.** Claim, job, ready row. Statements that claim, stage, expire, mark or recover skip the rows that
  another transaction has locked, and so may lock them in any order.
* **Cost.** Claiming and recovering cost in proportion to the rows that they touch, however many jobs wait, have
  finished or lie in the future. No round reads claims by their worker.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Set
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, cast

import msgspec

from rowcall.store.schema import READY_COLUMNS, READY_ROW, READY_TYPE
from rowcall.store.statement import (
    Change,
    Ids,
    Int,
    Json,
    Now,
    Packed,
    Query,
    Row,
    Text,
    number_from_row,
)

_FILE, _SERVER = ("sqlite",), ("postgres", "mysql")
SEPARATOR = "\x1f"
"""The type of a ready row is a key: the name of the task, and behind a separator the fingerprints of the declarations
that the arguments of the job did not fit. A name that has the separator in it is followed by one more.
"""


class Fence(NamedTuple):
    """Identifies an attempt while it runs."""

    job_id: int
    lease: int
    holder: int


def new_holder() -> int:
    """Return the number of a worker's start, or of a claim by hand."""
    return secrets.randbits(62) + 1


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

    Nothing of what follows is read then.
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
    unfit: str | None = None
    """The fingerprints of the declarations that its arguments do not fit."""
    deadline_at_ms: int | None = None
    parent_id: int | None = None
    row: str | None = None
    """The row in the table of ready jobs, as PostgreSQL names it."""
    error_code: str | None = None
    error_detail: str | None = None
    """The last error of its earlier attempts."""
    holder: int = 0
    """Who claims it."""

    @property
    def fence(self) -> Fence:
        return Fence(self.id, self.lease, self.holder)

    @property
    def is_first(self) -> bool:
        """Whether it was never claimed before, and so has no steps and no earlier attempts."""
        return self.lease == 1

    def waited_ms(self, claimed_at_ms: int) -> int:
        """Return how long it was due when it was claimed: since `run_at`, or since it was written if that is later."""
        since, written = self.run_at_ms, self.created_at_ms
        return claimed_at_ms - (since if since > written else written)

    def order(self) -> tuple[int, int, int]:
        """Return what claims sort by: the key of its row in the table of ready jobs."""
        return ~self.priority, self.id if self.turn is None else self.turn, self.id


_IS_PLAIN = attrgetter("is_plain")
_TYPE, _QUEUE = attrgetter("type"), attrgetter("queue")
_FAIR = attrgetter("fair")
_RETRY = attrgetter("retry")


def all_plain(jobs: Iterable[Ready]) -> bool:
    # not a generator: what is done for each claimed job is a part of each drain
    return all(map(_IS_PLAIN, jobs))


def any_retry(jobs: Iterable[Ready]) -> bool:
    return not {None}.issuperset(map(_RETRY, jobs))


def any_fair(jobs: Iterable[Ready]) -> bool:
    return not {None}.issuperset(map(_FAIR, jobs))


def any_of(jobs: Iterable[Ready], types: Set[str], queues: Collection[str]) -> bool:
    """Return whether any of these jobs is of one of these tasks, or in one of these queues."""
    return not (types.isdisjoint(map(_TYPE, jobs)) and {*queues}.isdisjoint(map(_QUEUE, jobs)))


def key_of(task: str, unfit: str | None) -> str:
    """Return the type of the ready row of a job.

    >>> key_of("greet", None), key_of("greet", "0123abcd,4567cdef")
    ('greet', 'greet\\x1f0123abcd,4567cdef')
    """
    return task if unfit is None and SEPARATOR not in task else f"{task}{SEPARATOR}{unfit or ''}"


def parts_of(key: str) -> tuple[str, list[str]]:
    """Return the task of a ready row, and the fingerprints that have refused its job."""
    task, separator, unfit = key.rpartition(SEPARATOR)
    return (task, unfit.split(",") if unfit else []) if separator else (key, [])


def task_of(key: str) -> str:
    return parts_of(key)[0] if SEPARATOR in key else key


def takes(tasks: Mapping[str, str | None] | None, key: str) -> bool:
    """Return whether a worker that knows these tasks may claim the jobs of a key. None: it may know any.

    `tasks` has the fingerprints of each, with commas; a task without any takes every job.
    """
    if tasks is None or SEPARATOR not in key:
        return tasks is None or key in tasks
    task, unfit = parts_of(key)
    return task in tasks and {*(tasks[task] or "").split(",")}.isdisjoint(unfit)


Pair = tuple[str, str]
"""A queue, and the type of ready jobs in it."""
ReadyKey = tuple[int, int, int]
"""The rank, turn and id of a row in the table of ready jobs: their order within a queue and type."""
Starts = Mapping[Pair, ReadyKey | None]
"""For queues and types of ready jobs: the row behind which a search starts, if it is known."""
START = (-(2**63),) * 3
NOTHING_KNOWN: Starts = MappingProxyType({})


class EndedClaim(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A claim that was deleted because its attempt has ended, with what only the claim knew."""

    job_id: int
    lease: int
    worker: str
    claimed_at_ms: int | None
    started_at_ms: int | None
    progress: float | None
    progress_message: str | None
    cancel: int


class Work(msgspec.Struct, frozen=True):
    """What there is to do, read without the write lock."""

    now_ms: int
    due_at_ms: int | None
    expires_at_ms: int | None
    registered: bool
    ready: dict[Pair, ReadyKey | None]
    """The ready jobs in the queues that were asked for. A round adds the queues that it finds later."""
    wake_at_ms: int | None = None
    """When the next schedule or rate limit must be checked."""
    paused: list[tuple[str, str]] = []
    """What is paused: ("queue", its name) or ("task", its name)."""
    edges_open: bool = False
    edges_unsure: bool = False
    slots: bool = False
    waiters: bool = False
    tags: bool = False
    seconds: float = 0.0
    """How long the server searched for the queues and types of ready jobs."""

    @property
    def concerned(self) -> InUse:
        return InUse(self.edges_open, self.slots, self.waiters, self.tags)

    @property
    def is_wake_due(self) -> bool:
        return self.wake_at_ms is not None and self.wake_at_ms <= self.now_ms

    @property
    def next_at_ms(self) -> int | None:
        """When something falls due without a notification."""
        times = [at for at in (self.due_at_ms, self.expires_at_ms, self.wake_at_ms) if at is not None]
        return min(times) if times else None


class InUse(NamedTuple):
    """Whether any job waits for another, runs under a limit, has a waiter, or has tags with a status to keep."""

    edges: bool
    slots: bool
    waiters: bool = False
    tags: bool = False
    """Only where no trigger keeps it."""


class Peek(NamedTuple):
    """The cheapest check for work: it runs after every commit of another process."""

    now_ms: int
    any_ready: bool
    due_at_ms: int | None
    expires_at_ms: int | None
    wake_at_ms: int | None
    edges_unsure: bool


class Mark(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What is written about an attempt while it runs. Ages are counted back from the database's clock; None keeps."""

    job_id: int
    lease: int
    holder: int
    started_age_ms: int | None = None
    progress: float | None = None
    message: str | None = None
    age_ms: int = 0
    replays: int = 0
    """Whether the handler may only repeat what an earlier attempt has reported: skipped if the job has steps."""

    def at_end(self, *, succeeded: bool) -> Mark:
        """Return what the end of the attempt writes. A handler that succeeds has come further than all before it."""
        return msgspec.structs.replace(self, progress=1.0, replays=0) if succeeded else self


_pairs = msgspec.json.Decoder(list[tuple[str, str]])
_found = msgspec.json.Decoder(list[tuple[str, str, tuple[int, int, int] | None]])


def starts_from_row(row: Row) -> dict[Pair, ReadyKey | None]:
    return {(queue, key): start for queue, key, start in _found.decode(cast("str", row[0]))}


def work_from_row(row: Row) -> Work:
    _, seconds, now_ms, due_at, expires_at, registered, wake_at, paused, *flags = cast(
        "tuple[str, float, int, int | None, int | None, int, int | None, str, int, int, int, int, int]", row
    )
    known = (now_ms, due_at, expires_at, bool(registered), starts_from_row(row), wake_at, _pairs.decode(paused))
    edges_open, edges_unsure, slots, waiters, tags = map(bool, flags)
    return Work(*known, edges_open, edges_unsure, slots, waiters, tags, seconds)


def peek_from_row(row: Row) -> Peek:
    now_ms, any_ready, due_at, expires_at, wake_at, unsure = cast(
        "tuple[int, int, int | None, int | None, int | None, int]", row
    )
    return Peek(now_ms, bool(any_ready), due_at, expires_at, wake_at, bool(unsure))


def renewed_from_row(row: Row) -> bool:
    """Return whether the attempt has a cancel request."""
    return bool(row[0])


def ids_or_none(row: Row) -> list[int] | None:
    return cast("list[int] | None", row[0])


# What there is to do, with the next queues that have ready jobs: behind which queue, and how many at most; or which
# queues, for a worker that serves only these. Behind the last queue comes the first.
FIND_WORK = Query("find_work", (Now, Text, Text, Int, Json), work_from_row)
EVERY_QUEUE = ("", 2**31 - 1, None)
# the same, and the worker, if it is registered, stays so until the transaction ends
FIND_WORK_AND_LOCK = Query("find_work_and_lock", (Now, Text, Text, Int, Json), work_from_row)
# the same, where the queues and types of ready jobs are known
FIND_OTHER_WORK_AND_LOCK = Query("find_other_work_and_lock", (Now, Text, Json), work_from_row, only=_SERVER)
# more queues with ready jobs, behind a given one, or of a list
FIND_QUEUES = Query("find_queues", (Text, Int, Json), starts_from_row)
PEEK = Query("peek", (Now,), peek_from_row)

# the first ready jobs: of one type behind its start; of several, each behind its own
READY_OF_TYPE = Packed("ready_of_type", (Now, Text, Int, Text, Int, Int, Int), Ready, only=_SERVER)
READY_OF_TYPES = Packed("ready_of_types", (Now, Text, Int, Json), Ready, only=("postgres",))
REST_OF_TYPES = Packed("rest_of_types", (Now, Text, Int, Json), Ready, only=("postgres",))
READY_AHEAD = Packed("ready_ahead", (Now, Text, Int, Json), Ready, only=("postgres",))

# Claim the jobs of ready rows: the rows as the server names them, holder, worker, some ids, the lease of a claim by
# hand, how many rows there are, and 1 if these ids start now, 0 if the others do: the server goes through the list for
# each row. Returns the ids that were claimed, or null if all were.
CLAIM = Query("claim", (Now, Text, Int, Text, Ids, Int, Int, Int), ids_or_none, only=_SERVER)
# The same for the ready rows of a queue, type and rank, from one turn and id to another, with these ids; then delete
# the rows.
CLAIM_ROWS = Change("claim_rows", (Now, Text, Text, *[Int] * 5, Ids, Int, Text, Int, Int, Int), only=_FILE)
DELETE_READY = Query("delete_ready", (Text, Text, *[Int] * 5, Ids), only=_FILE)
# of some jobs, the ones that a holder has claimed now
_CLAIMED_BY = "select job_id from <claim> where job_id <in_ids:2> and holder = <bigint:3> and claimed_at = <now>"
CLAIMED_BY = Query("claimed_by", (Now, Ids, Int), number_from_row, text=_CLAIMED_BY, only=("sqlite", "mysql"))
# errors of earlier attempts, the last one of each job last
_ERRORS_OF = """
    select job_id, error_code, error_detail from <attempt> where job_id <in_ids:1> and error_code is not null
    order by id"""
ERRORS_OF = Query("errors_of", (Ids,), text=_ERRORS_OF)

# what is written about running attempts; claims that another transaction has locked are skipped
MARK = Query("mark", (Now, Ids, Json))
# Renew a claim: job, lease, holder, the length of the lease (null keeps), and its new owner, if it changes hands.
# A claim of a worker gets a lease only with a new owner. It waits for the lock; no row if the claim is gone.
_RENEW = """
    update <claim> as claim set heartbeat_at = moment.now, worker = coalesce(<text:6>, worker),
      lease_ms = coalesce(<bigint:5>, lease_ms),
      lease_until = case when lease_until is not null or <text:6> is not null
                         then moment.now + <span:coalesce(<bigint:5>, lease_ms)> end
    from (select <now> as now) as moment
    where job_id = <bigint:2> and lease = <bigint:3> and holder = <bigint:4> returning cancel"""
RENEW = Query("renew", (Now, Int, Int, Int, Int, Text), renewed_from_row, text=_RENEW)

# To change jobs: lock their claims, then the jobs, then their ready rows. A claim that has come in between is found by
# the last query, and everything starts again.
_LOCK_CLAIMS = "select job_id from <claim> where job_id <in_ids:1> order by job_id for update"
LOCK_CLAIMS = Query("lock_claims", (Ids,), number_from_row, text=_LOCK_CLAIMS, only=_SERVER)
LOCK_READY_OF = Query("lock_ready_of", (Ids,), only=_SERVER)
_RUNNING_IDS = "select job_id from <claim> where job_id <in_ids:1>"
RUNNING_IDS = Query("running_ids", (Ids,), number_from_row, text=_RUNNING_IDS)
# A savepoint that stays makes the commit of a caller's transaction slower with each job: by the square of their number.
SAVEPOINT = Query("lock_savepoint", text="savepoint rowcall_lock", only=_SERVER)
BACK_TO_SAVEPOINT = Query("back_to_lock", text="rollback to rowcall_lock", only=_SERVER)
RELEASE_SAVEPOINT = Query("release_lock", text="release rowcall_lock", only=_SERVER)

# Ready rows without a job that may be claimed, and such jobs without a row: only where plain SQL changed the tables
# behind our back.
OF_JOB = f"""job.queue = ready.queue and {READY_TYPE.format("job")} = ready.type and ~job.priority = ready.rank
        and coalesce(job.turn, job.id) = ready.turn and job.id = ready.id"""
# without the fence, a server that found a table empty when it analyzed it reads all of its rows for each row
_IS_UNCLAIMED = "not exists (select 1 from <claim> as claim where claim.job_id = job.id <as_written>)"
_IS_STALE = f"""not exists (
      select 1 from <job> as job where {OF_JOB} and job.lease = ready.lease and job.status = <pending>
        and job.held is null and {_IS_UNCLAIMED} <as_written>)"""
_DROP_STALE = f"""
    delete from <ready> where (queue, type, rank, turn, id) in (
      select queue, type, rank, turn, id from (
        select * from <ready> where queue = <text:1> and type = <text:2> order by rank, turn, id limit <int:3>
        <for_update> <skip_locked>
      ) as ready where {_IS_STALE}) returning id"""
DROP_STALE = Query("drop_stale", (Text, Text, Int), number_from_row, text=_DROP_STALE)
LOCK_READY = Query("lock_ready", (), only=_SERVER)
DROP_ALL_STALE = Query("drop_all_stale", text=f"delete from <ready> as ready where {_IS_STALE}")
_READY_NOW = f"""
    insert into <ready> {READY_COLUMNS} select {READY_ROW.format("job")} from <job> as job
    where {{}} <by_id:job.status> = <pending> and <by_id:job.held> is null and {_IS_UNCLAIMED}
    on conflict (queue, type, rank, turn, id) do nothing"""
ADD_MISSING = Query("add_missing", text=_READY_NOW.format("").replace("<by_id:job.status>", "job.status"))
# the jobs of attempts that have ended and left them pending
MAKE_READY = Query("make_ready", (Ids,), text=_READY_NOW.format("job.id <in_ids:1> and"))
# Plain SQL may say that a job is running. Without a claim no one runs it, so it is pending.
_UNCLAIMED = f"""
    update <job> as job set status = <pending> where job.id <in_rows>
      select id from <job> as job <indexed:job_waiting> where status = <running> and {_IS_UNCLAIMED}
      limit <int:1> <for_update> <skip_locked> <end_rows>"""
FREE_UNCLAIMED = Change("free_unclaimed", (Int,), text=_UNCLAIMED)

# whether jobs of a queue and task are claimed by hand now, or some succeeded in the last milliseconds (null: not asked)
IS_CONSUMED = Query("is_consumed", (Now, Text, Text, Int), number_from_row)
