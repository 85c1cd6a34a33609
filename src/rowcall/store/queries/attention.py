"""What needs attention: backlogs, and samples of jobs.

The contract
------------
* **Cost.** No query here depends on how many jobs there are: each reads groups by hops through an index, and of a group
  at most a given number of rows.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from rowcall.domain.lifecycle import Move
from rowcall.domain.outcome import OUTCOMES
from rowcall.store.queries.counts import ANY_OUTCOME, PAST, Histogram, histogram_from_json
from rowcall.store.rendering import literals
from rowcall.store.statement import Int, Json, Ms, Query, Row, Text, number_from_row, row_as

_TALLIES_READ, _CLAIMS_READ = 5_000, 1_000
_RAN = (
    OUTCOMES[Move.SUCCEED],
    OUTCOMES[Move.FAIL],
    OUTCOMES[Move.RETRY],
    OUTCOMES[Move.SNOOZE],
    OUTCOMES[Move.RELEASE],
)


class Backlog(NamedTuple):
    """Jobs of a queue that are due; `key` is that of ready rows. They are counted up to a number."""

    queue: str
    key: str
    jobs: int
    oldest_ms: int | None


class HeldBacklog(NamedTuple):
    """Jobs that one value of `held` holds, counted up to `most`, and since when the first in turn is due."""

    by: str
    jobs: int
    most: int
    first_id: int
    since_ms: int | None


class LongAttempt(NamedTuple):
    """A handler of a worker that has been running since a time. `progress_ms` is when it last reported progress."""

    id: int
    queue: str | None
    type: str | None
    worker: str
    attempt: int
    started_ms: int
    progress_ms: int | None


class LastEnd(NamedTuple):
    """When an attempt at a job of a queue and a task last ended."""

    queue: str
    type: str
    at_ms: int


class EndsOfOutcome(NamedTuple):
    outcome: str
    first_ms: int
    last_ms: int


class EndedJob(NamedTuple):
    id: int
    queue: str
    type: str
    at_ms: int


class ServerState(NamedTuple):
    """Sessions of the server, how many it allows, and whether it refuses to write."""

    sessions: int
    most_sessions: int
    read_only: bool


def server_state_from_row(row: Row) -> ServerState:
    used, most, read_only = cast("tuple[int, int, bool]", row)
    return ServerState(int(used), most, read_only)


def runs_from_row(row: Row) -> tuple[str, Histogram]:
    task, runs = cast("tuple[str, str | None]", row)
    return task, histogram_from_json(runs)


# of queues and keys of ready rows; at most how many rows of each
READY_BACKLOGS = Query("ready_backlogs", (Json, Int), row_as(Backlog))
_FIRST_READY = """
    select id from <ready> where queue = <text:1> and type = <text:2> order by queue, type, rank, turn, id
    limit <int:3>"""
FIRST_READY = Query("first_ready", (Text, Text, Int), number_from_row, text=_FIRST_READY)
# of a queue and some keys, the ready job that comes first
_FIRST_OF_KEY = """(
      select {} from <ready> where queue = <text:1> and type = given.item
      order by queue, type, rank, turn, id limit 1)"""
_FIRST_IN_TURN = f"""
    select id from (
      select {", ".join(f"{_FIRST_OF_KEY.format(one)} as {one}" for one in ("rank", "turn", "id"))}
      from <texts:2>) as firsts
    where id is not null order by rank, turn, id limit 1"""
FIRST_IN_TURN = Query("first_in_turn", (Text, Json), number_from_row, text=_FIRST_IN_TURN)
_FIRST_HELD_OF_GROUP = """
    select id from <job> <indexed:job_held>
    where status = <pending> and held is not null and queue = <text:1> and type = <text:2>
    order by queue, type, id limit 1"""
FIRST_HELD_OF_GROUP = Query("first_held_of_group", (Text, Text), number_from_row, text=_FIRST_HELD_OF_GROUP)
# scheduled jobs that were due before a time: no worker has staged them
_OVERDUE = """
    select cast(queue as text), cast(type as text), count(*), <ms_or_null:min(since)> from (
      select queue, type, <greatest:run_at, created_at> as since from <job> <indexed:job_due>
      where status = <scheduled> and run_at <= (select <time:1>) order by run_at limit <int:2>) as overdue
    group by queue, type"""
OVERDUE = Query("overdue", (Ms, Int), row_as(Backlog), text=_OVERDUE)
# the first job of each queue and type among them
_OVERDUE_JOBS = """
    select cast(queue as text), cast(type as text), min(id) from (
      select queue, type, id from <job> <indexed:job_due>
      where status = <scheduled> and run_at <= (select <time:1>) order by run_at limit <int:2>) as overdue
    group by queue, type"""
OVERDUE_JOBS = Query("overdue_jobs", (Ms, Int), lambda row: cast("tuple[str, str, int]", row), text=_OVERDUE_JOBS)
_FIRST_OVERDUE = """
    select id from <job> <indexed:job_due> where status = <scheduled> and run_at <= (select <time:1>)
    order by run_at limit <int:2>"""
FIRST_OVERDUE = Query("first_overdue", (Ms, Int), number_from_row, text=_FIRST_OVERDUE)
# at most how many values of `held`, and how many jobs of all of them, which get equal shares
HELD_BACKLOGS = Query("held_backlogs", (Int, Int), row_as(HeldBacklog))
# each job is read by its id: a join might be turned round, and read all jobs
_LONG_ATTEMPTS = """
    select job_id, (select cast(queue as text) from <job> where id = job_id),
           (select cast(type as text) from <job> where id = job_id),
           worker, attempt, <ms:started_at>, <ms_or_null:heartbeat_at>
    from <claim> where lease_until is null and started_at <= (select <time:1>) order by started_at, job_id
    limit <int:2>"""
LONG_ATTEMPTS = Query("long_attempts", (Ms, Int), row_as(LongAttempt), text=_LONG_ATTEMPTS)
# the queues of jobs that are claimed by hand, as far as the claims are valid at a time
_QUEUES_BY_HAND = f"""
    select distinct (select cast(queue as text) from <job> where id = job_id) from (
      select job_id from <claim> where lease_until > (select <time:1>) order by lease_until desc
      limit {_CLAIMS_READ}) as latest"""
QUEUES_BY_HAND = Query("queues_by_hand", (Ms,), lambda row: cast("str | None", row[0]), text=_QUEUES_BY_HAND)
_LAST_ENDS = f"""
    select queue, type, <ms:max(at)> from (
      select queue, type, at, outcome from <tally> order by id desc limit {_TALLIES_READ}) as latest
    where outcome in {literals(_RAN)} group by queue, type"""
LAST_ENDS = Query("last_ends", (), row_as(LastEnd), text=_LAST_ENDS)
# of one task, the first and the last time of each outcome
_ENDS_OF_TASK = f"""
    select outcome, <ms:min(at)>, <ms:max(at)>
    from {PAST.format("type, outcome, at", ANY_OUTCOME)} where type = <text:3> group by 1"""
ENDS_OF_TASK = Query("ends_of_task", (Ms, Ms, Text), row_as(EndsOfOutcome), text=_ENDS_OF_TASK)
_RUNS = f"""
    select type, runs from {PAST.format("type, runs", "outcome is not null and runs <> '{}'")}
    where type <in_texts:3>"""
RUNS = Query("runs", (Ms, Ms, Json), runs_from_row, text=_RUNS)  # how long attempts at jobs of some tasks ran
# jobs that failed with an error code after a time, newest first
_FAILED_SINCE = """
    select id, cast(queue as text), cast(type as text), <ms:finished_at> from <job> <indexed:job_failed>
    where status = <failed> and coalesce(error_code, '') = <text:1> and finished_at >= (select <time:2>)
    order by finished_at desc, id desc limit <int:3>"""
FAILED_SINCE = Query("failed_since", (Text, Ms, Int), row_as(EndedJob), text=_FAILED_SINCE)
# the newest jobs of a status, an error code and a task
NEWEST_WITH_ERROR = Query("newest_with_error", (Text, Text, Text, Int), number_from_row)
_NEWEST_CREATED = "select <ms_or_null:created_at> from <job> order by id desc limit 1"
NEWEST_CREATED = Query("newest_created", (), lambda row: cast("int | None", row[0]), text=_NEWEST_CREATED)
SERVER_STATE = Query("server_state", (), server_state_from_row, only=("postgres", "mysql"))
