"""Jobs that wait for others, chains and keys.

The contract
------------
* An edge leads from a blocker to a younger job. It is `open` until the blocker has ended, then `succeeded` (also where
  a failure is passed over) or `failed`. A job is `blocked` while one of its edges is open. If a blocker is deleted
  before its end, the edges of jobs that have ended stay open; a retry of such a job does without the blocker.
* An enqueue never locks a blocker. Where two transactions can write at once, edges to jobs that others can settle are
  written as `unsure`. A check locks the blocker, skipping locked ones, and reads it; from then on the transaction that
  settles the blocker sees the edge.
* The transaction that settles a blocker resolves its edges, and locks the waiting jobs before it reads whether anything
  else blocks them: of two that end at once, the later one sees the earlier.
* A key belongs to the newest job that has it, as the rows say. A transaction that writes a job with a key locks the key
  first (`LOCK_KEYS`).
* Every statement of an enqueue or a completion may run on a caller's connection.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple, cast

import msgspec

from rowcall.base.times import time_of, time_or_none
from rowcall.domain.job import FINISHED, Chain, Status
from rowcall.domain.outcome import BLOCKER_CANCELLED_CODE, BLOCKER_FAILED_CODE
from rowcall.domain.payload import value_from_row
from rowcall.domain.step import FOREVER_MS
from rowcall.store.columns import job_from_row, milliseconds, text
from rowcall.store.new_job import Blocker as Blocker
from rowcall.store.new_job import Inserted, NewJob
from rowcall.store.new_job import Unique as Unique
from rowcall.store.rendering import literals
from rowcall.store.statement import (
    Ids,
    Int,
    Json,
    Ms,
    Now,
    Parameter,
    Query,
    Row,
    Text,
    always_notify,
    json_from_row,
    number_from_row,
    row_as,
    text_from_row,
)

HIGHEST_ID = 2**63 - 1
_FILE, _SERVER = ("sqlite",), ("postgres", "mysql")


class Standing(NamedTuple):
    """What is known about a blocker; the status of a chain is that of its last step."""

    status: str
    type: str
    created_at_ms: int
    trace_context: str | None


class Edge(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job that waits for another. `unsure`: whether another transaction may be about to end the blocker; a database
    with one writer does not store that.
    """

    blocker_id: int
    of_chain: int
    job_id: int
    position: int
    on_failure: str
    unsure: int


class EndedEdge(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An open edge whose blocker has ended."""

    blocker_id: int
    of_chain: int
    job_id: int
    on_failure: str
    status: str
    error_code: str | None


class UnsureEdge(msgspec.Struct, array_like=True, frozen=True, gc=False):
    blocker_id: int
    of_chain: int
    job_id: int
    on_failure: str


class Touched(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job whose status was changed. `followed`: whether a follow-up of this end is declared, if that was asked."""

    id: int
    queue: str
    type: str
    attempt: int
    followed: bool = False


class Holder(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The newest job that has a key."""

    key: str
    job_id: int


class Replacement(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The new content of a waiting job."""

    job_id: int
    payload: str
    run_at_ms: int | None
    delay_ms: int
    expires_at_ms: int | None
    expires_in_ms: int | None
    limits: str | None
    target: str | None
    fair: str | None = None
    weight: int | None = None
    ordered: str | None = None
    order_blocks: int | None = None
    keep_run_at: int = 0
    longest_delay_ms: int | None = None
    deadline_ms: int | None = None


class Replaced(NamedTuple):
    """A waiting job that has new content; its lease is 0 if it was never claimed."""

    job_id: int
    lease: int


class FallenJob(NamedTuple):
    """A job that never ran, and the blocker because of which: a job, or a chain that this job began."""

    job_id: int
    blocker_id: int
    of_chain: int


class BlockerResult(NamedTuple):
    position: int
    status: str | None
    result: str | None
    blocker_id: int
    of_chain: int
    state: str
    type: str


class ChainFilter(msgspec.Struct, frozen=True, kw_only=True):
    type: str | None = None
    status: str | None = None
    before_id: int | None = None
    limit: int = 50


_OPTIONS = (
    "type queue priority max_attempts run_at_ms delay_ms timeout_seconds retry tags expires_at_ms expires_in_ms"
    " trace_context on_end key limits target fair weight ordered order_blocks blocked chain_id chain_index batch_id"
    " deadline_ms parent_id parent_step detached"
)
INSERTED_FIELDS = (*_OPTIONS.split(), "payload")
"""The fields of each array that `INSERT_EACH` is given."""

OF_EACH_CHILD = ("parent_id", "parent_step", "payload")
SHARED_FIELDS = tuple(name for name in INSERTED_FIELDS if name not in OF_EACH_CHILD)
"""What the children of one gather have in common, where they are calls of one task."""

_options, shared_fields = attrgetter(*_OPTIONS.split()), attrgetter(*SHARED_FIELDS)
_standing = msgspec.json.Decoder(list[tuple[int, int, str, str, int, str | None]])


def inserted_fields(job: NewJob, payload: str) -> tuple[Parameter, ...]:
    return (*_options(job), payload)


def inserted_from_row(row: Row) -> Inserted:
    return Inserted(*cast("tuple[int, str, int, int, int | None, int | None]", row[:6]))


def standing_from_row(row: Row) -> dict[Blocker, Standing]:
    found = _standing.decode(text_from_row(row))
    return {Blocker(one[0], bool(one[1])): Standing(*one[2:]) for one in found}


def pair_from_row(row: Row) -> tuple[int, int]:
    return cast("tuple[int, int]", row)


def ended_from_row(row: Row) -> tuple[int, tuple[str, str | None]]:
    job_id, status, error_code = cast("tuple[int, str, str | None]", row)
    return job_id, (status, error_code)


def blocker_result_from_row(row: Row) -> BlockerResult:
    position, status, result, blocker_id, of_chain, state, task = cast(
        "tuple[int, str | None, object, int, int, str, object]", row
    )
    return BlockerResult(position, status, text(result), blocker_id, of_chain, state, text(task) or "")


def result_from_row(row: Row) -> tuple[str | None, str]:
    return text(row[0]), cast("str", row[1])


def chain_from_row(row: Row) -> Chain:
    chain_id, task, queue, status, length, current, created_at, finished_at, result, code, detail, last_type = row
    ended = Status(cast("str", status)) in FINISHED
    return Chain(
        id=cast("int", chain_id),
        type=cast("str", task),
        queue=cast("str", queue),
        status=Status(cast("str", status)),
        length=cast("int", length),
        current=cast("int", current),
        created_at=time_of(cast("int", created_at)),
        finished_at=time_or_none(milliseconds(finished_at)) if ended else None,
        result=value_from_row(text(result)) if ended else None,
        error_code=text(code) if ended else None,
        error_detail=text(detail) if ended else None,
        last_type=text(last_type) or "",
    )


def any_row(rows: list[Row]) -> bool:
    return bool(rows)


def last_column_is_true(rows: list[Row]) -> bool:
    return bool(rows[0][-1])


# the last step says how a chain ended; until then, the first that has not succeeded says where it is
LAST_STEP = "(select {} from <job> as step where step.chain_id = head.id order by step.chain_index desc limit 1)"
_CURRENT = """(select {} from <job> as step where step.chain_id = head.id and step.status <> <succeeded>
               order by step.chain_index limit 1)"""
_STEP_STATUS = """case when exists (select 1 from <claim> as claim where claim.job_id = step.id <as_written>)
                        then <running> else <text_of:step.status> end"""
_CHAIN_STATUS = f"""case when {LAST_STEP.format("step.status")} in <finished>
             then {LAST_STEP.format("<text_of:step.status>")} else {_CURRENT.format(_STEP_STATUS)} end"""
_CHAIN = f"""
    select * from (
      select head.id, <text_of:head.type>, <text_of:head.queue>, {_CHAIN_STATUS} as status,
             {LAST_STEP.format("step.chain_index")} + 1 as length,
             coalesce({_CURRENT.format("step.id")}, {LAST_STEP.format("step.id")}) as current,
             <ms_or_null:head.created_at> as created_at,
             {LAST_STEP.format("<ms_or_null:step.finished_at>")} as finished_at,
             {LAST_STEP.format("<text_of:step.result>")} as result, {LAST_STEP.format("step.error_code")} as error_code,
             {LAST_STEP.format("step.error_detail")} as error_detail,
             {LAST_STEP.format("<text_of:step.type>")} as last_type
      from <job> as head
      where head.chain_index = 0 and head.chain_id = head.id and {{}} order by head.id desc
    ) as chain"""

_STEP_BEFORE = "step.chain_id = {0} and step.chain_index = {1} - 1"
BATCH_OF_NEW = f"""coalesce({{2}}, case when {{0}} is not null then (
        select step.batch_id from <job> as step where {_STEP_BEFORE}) end)"""

# transactions
BEGIN_WRITING = Query("begin_writing", only=_FILE)
DEFERRING = Query("deferring", (), number_from_row, only=_FILE)
DEFER = Query("defer", only=_FILE)
DEFER_NO_MORE = Query("defer_no_more", only=_FILE)
READ_SOMETHING = Query("read_something", only=_FILE)
TRANSACTION_BEGAN = Query("transaction_began", (), text_from_row, only=("postgres",))
ISOLATION = Query("isolation", (), text_from_row, only=_SERVER)

# Children with shared fields, in a quarter of the time that INSERT_EACH takes on SQLite.
INSERT_CHILDREN = Query(
    "insert_children", (Now, Json, Json), inserted_from_row, notifies=last_column_is_true, only=("sqlite",)
)
# Jobs, each with its own options. A step of a chain that names no batch is in that of the step before.
INSERT_EACH = Query("insert_each", (Now, Json), inserted_from_row, notifies=last_column_is_true)
# ids, chains and indexes
MARK_CHAINS = Query("mark_chains", (Json,))

# edges. Blockers are pairs: an id, and 1 for the chain that the job began
STANDING = Query("standing", (Json,), standing_from_row)
INSERT_EDGES = Query("insert_edges", (Json,))
_LINK_TRACES = "update <job> set trace_context = <text:2> where id = <bigint:1> returning id"
LINK_TRACES = Query("link_traces", (Int, Text), text=_LINK_TRACES)
SETTLE_EDGES = Query("settle_edges", (Now, Text, Json))
# takes edges (blocker and job); returns the open ones whose blocker has ended
ENDS_OF = Query("ends_of", (Json,), json_from_row(list[EndedEdge]))
# open edges of these jobs, and of the chains that they ended
ENDED_EDGES = Query("ended_edges", (Ids,), json_from_row(list[EndedEdge]))
LOCK_BLOCKED = Query("lock_blocked", (Ids,), only=_SERVER)
# blocked jobs that no other transaction has locked, and all that are blocked
LOCK_FREE_BLOCKED = Query("lock_free_blocked", (Ids,), number_from_row, only=_SERVER)
STILL_BLOCKED = Query("still_blocked", (Ids,), number_from_row, only=_SERVER)
# ends by job id
# jobs without an open edge become ready, behind all that are
UNBLOCK = Query("unblock", (Now, Ids), number_from_row, notifies=any_row)
PASS_TURN = Query("pass_turn", only=_FILE)
# unfinished jobs that wait, or waited, for one of these jobs, or for a chain that one of these began
DEPENDANTS = Query("dependants", (Ids,), row_as(Touched))
# jobs that never ran because one of these jobs, or a chain that one of these began, did not succeed
FELL = f"job.attempt = 0 and job.error_code in {literals((BLOCKER_FAILED_CODE, BLOCKER_CANCELLED_CODE))}"
FALLEN = Query("fallen", (Ids,), row_as(FallenJob))
_STATUS = """case when exists (select 1 from <claim> as claim where claim.job_id = head.id <as_written>)
                     then <running> else <text_of:head.status> end"""
_BLOCKER_RESULTS = f"""
    select edge.position,
           case when edge.of_chain <> 0 and head.chain_index = 0 then {_CHAIN_STATUS} else {_STATUS} end,
           case when edge.of_chain <> 0 and head.chain_index = 0 then {LAST_STEP.format("<text_of:step.result>")}
                else <text_of:head.result> end,
           edge.blocker_id, edge.of_chain, edge.state,
           case when edge.of_chain <> 0 and head.chain_index = 0 then {LAST_STEP.format("<text_of:step.type>")}
                else <text_of:head.type> end
    from <edge> as edge left join <job> as head on head.id = edge.blocker_id
    where edge.job_id = <bigint:1> order by edge.position"""
BLOCKER_RESULTS = Query("blocker_results", (Int,), blocker_result_from_row, text=_BLOCKER_RESULTS)

# jobs that wait, or waited, for a job, and for the chain with an id; whether it is the chain; the state of the edge
_DEPENDENT = "select job_id, of_chain, state from <edge> where blocker_id = <bigint:{}> and of_chain = {}"
_DEPENDENTS = f"{_DEPENDENT.format(1, 0)} union all {_DEPENDENT.format(2, 1)} order by 1, 2 limit <int:3>"
DEPENDENTS = Query("dependents", (Int, Int, Int), lambda row: cast("tuple[int, int, str]", row), text=_DEPENDENTS)

# unsure edges: edges of a job that ends on a caller's connection, or that were written next to a settle
DOUBT_EDGES = Query("doubt_edges", (Int,), only=_SERVER)
# edges of jobs that another transaction has locked, except edges that are locked themselves
DOUBT_LOCKED = Query("doubt_locked", (Json,), only=_SERVER, notifies=always_notify)
UNSURE_EDGES = Query("unsure_edges", (Int,), row_as(UnsureEdge), only=_SERVER)
LAST_STEPS = Query("last_steps", (Ids,), pair_from_row, only=_SERVER)
# status and error code of blockers that no other transaction has locked, locked until this one ends
LOCK_BLOCKERS = Query("lock_blockers", (Ids,), ended_from_row, only=_SERVER)
EXISTING_BLOCKERS = Query("existing_blockers", (Ids,), number_from_row, only=_SERVER)
TRUST_EDGES = Query("trust_edges", (Json,), only=_SERVER)
# open edges whose blocker is gone, or has ended and is not to be retried; all open edges are read
FORGOTTEN_EDGES = Query("forgotten_edges", (Text, Int), json_from_row(list[EndedEdge]))

# a retry of jobs that fell with their blockers, or were cancelled before their blockers were deleted
REOPEN_EDGES = Query("reopen_edges", (Ids,))
# failed edges, and open ones whose blocker is gone
FORGIVE_EDGES = Query("forgive_edges", (Now, Ids))
_REBLOCK = """
    update <job> as job set status = <to:reblock> where id <in_ids:1>
      and exists (select 1 from <edge> as edge where edge.job_id = job.id and edge.state = 'open' <as_written>)"""
REBLOCK = Query("reblock", (Ids,), text=_REBLOCK)

# keys
LOCK_KEYS = Query("lock_keys", (Text, Json), only=_SERVER)
KEY_HOLDERS = Query("key_holders", (Now, Text, Json, Text, Ms), json_from_row(list[Holder]))
# replacements by job id, of locked jobs that wait
# `{keep}`: a job that is replaced keeps its time, unless it waits for a signal, whose step is deleted
KEPT_RUN_AT = (
    f"case when {{keep}} <> 0 and <ms:{{job}}.run_at> < {FOREVER_MS} then {{job}}.run_at"
    " else {least}({0}, coalesce({latest}, {0})) end"
)
REPLACE_WAITING = Query("replace_waiting", (Now, Json), row_as(Replaced), notifies=any_row)

# chains
CHAIN = Query("chain", (Int,), chain_from_row, text=_CHAIN.format("head.id = <bigint:1>"))
_LIST_CHAINS = f"""{_CHAIN.format("head.id < <bigint:1> and (<text:2> is null or head.type = <text:2>)")}
    where <text:3> is null or status = <text:3> limit <int:4>"""
LIST_CHAINS = Query("list_chains", (Int, Text, Text, Int), chain_from_row, text=_LIST_CHAINS)
_CHAIN_STEPS = "select <job_columns> from <prefix>jobs as job where chain_id = <bigint:1> order by chain_index"
CHAIN_STEPS = Query("chain_steps", (Int,), job_from_row, text=_CHAIN_STEPS)
# takes steps (chain and index); returns the ones that exist
TAKEN_STEPS = Query("taken_steps", (Json,), pair_from_row)
# a subquery: PostgreSQL would read the whole index of first steps if it saw that they may be meant
_PREVIOUS_RESULT = """
    select <text_of:result>, <text_of:type> from <job>
    where chain_id = <bigint:1> and chain_index = (select <int:2> - 1)"""
PREVIOUS_RESULT = Query("previous_result", (Int, Int), result_from_row, text=_PREVIOUS_RESULT)
