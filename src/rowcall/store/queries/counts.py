"""Counts, history and retention: what is counted and kept apart from the jobs.

The contract
------------
* **Totals.** The number of finished jobs, by status, queue, type, error code and attempt, is the sum of signed rows.
  Each transaction that finishes, revives or deletes jobs adds its own (`TALLY`, or a trigger for what plain SQL inserts
  and for every delete), and no transaction waits for another. Folding moves them into a table of totals.
* **Unfinished.** Unfinished jobs are counted through indexes that hold every column that is needed: at one moment, or
  in parts (`WAITING_PARTS`), of which each is a short read.
* **History.** The same rows record how attempts ended, with histograms of waits and runs. Folded, they are counts per
  span (`SPANS`): the older, the longer. No answer needs histograms by outcome, so one row of a span, queue and type
  holds those of all outcomes. Workers add samples of how many jobs are pending, and when new code began (`SAMPLES`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeVar, cast

import msgspec

from rowcall.base.text import decoded
from rowcall.base.times import milliseconds_of
from rowcall.domain.job import Job, Status
from rowcall.store.columns import job_from_row, milliseconds, text
from rowcall.store.queries.claims import task_of
from rowcall.store.rendering import literals
from rowcall.store.statement import (
    Change,
    Ids,
    Int,
    Json,
    Ms,
    Now,
    Query,
    Row,
    Text,
    number_from_row,
    row_as,
    text_from_row,
)

T = TypeVar("T")

MOST_ATTEMPTS_COUNTED = 100  # higher numbers are counted together
MOST_SUMMED = 2**53
UNSUCCESSFUL = ("failed", "retried", "lost")
SAMPLED, PENDING_SAMPLE, DEPLOYED = SAMPLES = ("sampled", "pending", "deployed")
"""What history also has as outcomes: how often it was asked how many jobs are pending, how many were, and new code."""
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

Histogram = dict[int, int]
"""Durations: counts by the number of a bucket. Buckets have 1 ms below 16 ms; then there are eight per doubling."""
LONGEST_MS, LAST_BUCKET = 2**50, 384
_Bucket = Annotated[int, msgspec.Meta(ge=0, le=LAST_BUCKET)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_SUMMED)]
_histogram_decoder = msgspec.json.Decoder(dict[_Bucket, _Count])


class HistorySpan(NamedTuple):
    """History that is older than `after_ms` is counted in whole spans of `ms`."""

    ms: int
    after_ms: int


SPANS = (
    HistorySpan(MINUTE_MS, 0),
    HistorySpan(HOUR_MS, HOUR_MS),
    HistorySpan(6 * HOUR_MS, DAY_MS),
    HistorySpan(DAY_MS, 7 * DAY_MS),
)


class Tally(msgspec.Struct, array_like=True, gc=False, kw_only=True):
    """A number of attempts that ended the same way. `status` names the total that changes, `outcome` the history."""

    queue: str
    type: str
    outcome: str | None
    status: str | None
    error_code: str = ""
    attempt: int = 0
    jobs: int = 0
    waits: Histogram = {}
    runs: Histogram = {}


class WrittenTally(NamedTuple):
    """A tally as it was written, with its number and time."""

    id: int
    at_ms: int
    tally: Tally


class Total(msgspec.Struct, array_like=True, frozen=True, gc=False):
    status: str
    queue: str
    type: str
    error_code: str
    attempt: int
    jobs: int


class Unfinished(NamedTuple):
    """Unfinished jobs of one queue, type and status.

    `oldest_ms` is since when the first pending or scheduled one waits: since `run_at`, or since it was written if that
    is later.
    """

    status: str
    queue: str
    type: str
    jobs: int
    oldest_ms: int | None


class Part(NamedTuple):
    """Some of the unfinished jobs of one queue and type that have used up a number of attempts."""

    attempt: int
    jobs: int
    oldest_ms: int | None


class WaitingPart(NamedTuple):
    """Queries about jobs of one status, in the order of an index, after a place in it. `first` is before all places.

    A group is a queue and a type, which is a key where jobs are ready.
    """

    status: str
    next_group: Query[tuple[str, str]]
    part: Query[Part]
    last_place: Query[tuple[int, ...]]
    first: tuple[int, ...]


class Past(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A number of attempts that ended the same way within one span; a part of a minute has a `span_ms` of 0."""

    at_ms: int
    span_ms: int
    queue: str
    type: str
    outcome: str
    error_code: str
    jobs: int
    waits: Histogram
    runs: Histogram


class EndedCount(NamedTuple):
    queue: str
    type: str
    outcome: str
    jobs: int


class EndedByError(NamedTuple):
    type: str
    error_code: str
    outcome: str
    jobs: int


class EndedInPeriod(NamedTuple):
    period: int
    outcome: str
    error_code: str
    jobs: int


class EndedOfGroup(NamedTuple):
    period: int
    queue: str
    type: str
    outcome: str
    jobs: int


class PeriodDurations(NamedTuple):
    period: int
    waits: Histogram
    runs: Histogram


class PendingGroup(NamedTuple):
    queue: str
    type: str
    jobs: int


class Durations(NamedTuple):
    queue: str
    type: str
    waits: Histogram
    runs: Histogram


class Group(NamedTuple):
    """Finished jobs that one retention rule covers."""

    status: Status
    queue: str
    type: str


class Arrived(NamedTuple):
    """How many jobs of one queue and type were created within a time, how many before, and when the first was."""

    queue: str
    type: str
    jobs: int
    others: int
    first_ms: int | None


class First(NamedTuple):
    """The job with the lowest id, and when it was created."""

    id: int
    created_ms: int


class Boundary(NamedTuple):
    """A time, the last job that was created before it, and the job after that one. The first job may come later."""

    at_ms: int
    id: int
    created_ms: int
    next_id: int | None
    next_ms: int | None


class Prunable(NamedTuple):
    jobs: int
    oldest_ms: int | None


class ErrorSpan(NamedTuple):
    """The times of the first and the last failed job with one error code; the error text and the task of the last."""

    error_code: str
    first_ms: int | None
    last_ms: int | None
    sample: str | None
    type: str


class WaitingGroup(NamedTuple):
    """Jobs of one type that wait after an attempt with one error code."""

    status: str
    error_code: str
    type: str


class StoreHealth(NamedTuple):
    """What the database reports about itself; None or 0 where it has no such figure."""

    dead_rows: int | None = None
    oldest_transaction_seconds: float = 0.0
    oldest_transaction_pid: int = 0


class UpkeepState(NamedTuple):
    at_ms: int
    any_tally: bool
    settings: dict[str, str]


class RunningJob(NamedTuple):
    """A running job, and what is known about its worker."""

    job: Job
    host: str | None
    worker_heartbeat_ms: int | None
    last_seen_ms: int


def total_from_row(row: Row) -> Total:
    status, queue, task, error_code, attempt, jobs = row
    return Total(str(status), str(queue), str(task), str(error_code), cast("int", attempt), int(cast("int", jobs)))


def unfinished_from_row(row: Row) -> Unfinished:
    status, queue, key, jobs, oldest_ms = cast("tuple[str, str, str, int, int | None]", row)
    return Unfinished(status, queue, task_of(key), jobs, oldest_ms)


def attempts_from_row(row: Row) -> tuple[str, int, int]:
    key, attempt, jobs = cast("tuple[str, int, int]", row)
    return task_of(key), attempt, int(jobs)


def histogram_from_json(text: str | None) -> Histogram:
    """Return the histogram in a row, or an empty one if plain SQL wrote something else."""
    return decoded(_histogram_decoder, text, {}) if text else {}


def past_from_row(row: Row) -> Past:
    at, span, queue, task, outcome, code, jobs, waits, runs = cast(
        "tuple[int, int, str, str, str, str, int, str | None, str | None]", row
    )
    return Past(at, span, queue, task, outcome, code, int(jobs), histogram_from_json(waits), histogram_from_json(runs))


def sum_as(kind: Callable[..., T]) -> Callable[[Row], T]:
    """Return the maker of a value whose last column is a sum."""
    return lambda row: kind(*row[:-1], int(cast("int", row[-1])))


def durations_from_row(row: Row) -> Durations:
    queue, task, waits, runs = cast("tuple[str, str, str | None, str | None]", row)
    return Durations(queue, task, histogram_from_json(waits), histogram_from_json(runs))


def period_durations_from_row(row: Row) -> PeriodDurations:
    period, waits, runs = cast("tuple[int, str | None, str | None]", row)
    return PeriodDurations(period, histogram_from_json(waits), histogram_from_json(runs))


def pending_from_row(row: Row) -> PendingGroup:
    named, key, jobs = cast("tuple[str, str, int]", row)
    return PendingGroup(named, task_of(key), int(jobs))


def tally_from_row(row: Row) -> WrittenTally:
    tally_id, at, *fields, waits, runs = row
    histograms = [histogram_from_json(cast("str | None", histogram)) for histogram in (waits, runs)]
    return WrittenTally(cast("int", tally_id), cast("int", at), msgspec.convert([*fields, *histograms], Tally))


def group_from_row(row: Row) -> Group:
    status, queue, task = cast("tuple[str, str, str]", row)
    return Group(Status(status), queue, task)


def oldest_from_row(row: Row) -> tuple[Group, int | None]:
    *group, oldest_ms = row
    return group_from_row(tuple(group)), milliseconds(oldest_ms)


def prunable_from_row(row: Row) -> Prunable:
    jobs, oldest_ms = row
    return Prunable(cast("int", jobs), milliseconds(oldest_ms))


def detail_from_row(row: Row) -> tuple[int, tuple[str | None, str]]:
    job_id, detail, task = row
    return cast("int", job_id), (text(detail), text(task) or "")


def error_span_from_row(row: Row) -> ErrorSpan:
    code, first_ms, last_ms, sample, task = row
    return ErrorSpan(str(code), milliseconds(first_ms), milliseconds(last_ms), text(sample), text(task) or "")


def running_from_row(row: Row) -> RunningJob:
    *fields, host, heartbeat_ms, last_seen = row
    job = job_from_row(tuple(fields))
    last_seen_ms = milliseconds(last_seen)
    return RunningJob(
        job,
        cast("str | None", host),
        cast("int | None", heartbeat_ms),
        milliseconds_of(job.created_at) if last_seen_ms is None else last_seen_ms,
    )


def setting_from_row(row: Row) -> tuple[str, str]:
    name, value = row
    return str(name), str(value)


def pair_from_row(row: Row) -> tuple[int, int]:
    first, second = cast("tuple[int, int]", row)
    return first, second


def upkeep_from_row(row: Row) -> UpkeepState:
    at_ms, any_tally, settings = cast("tuple[int, int, str]", row)
    return UpkeepState(at_ms, bool(any_tally), msgspec.json.decode(settings, type=dict[str, str]))


NOW = Query("now", (Now,), number_from_row, text="select <ms:(select <now>)>")

# Tallies are written in the same transaction as what they count. It returns rows because a statement on a caller's
# connection has to.
_TALLY = """
    insert into <tally> (at, queue, type, outcome, status, error_code, attempt, jobs, waits, runs)
    select moment.now, <fields:text text text text text int bigint json json>
    from (select <now> as now) as moment, <rows:2> where true returning id"""
TALLY = Query("tally", (Now, Json), text=_TALLY)
# of finished jobs, and exact
_TOTALS = """
    select status, queue, type, error_code, attempt, sum(jobs) from (
      select status, queue, type, error_code, attempt, jobs from <total>
      union all
      select status, queue, type, error_code, attempt, jobs from <tally> where status is not null) as counted
    group by 1, 2, 3, 4, 5 having sum(jobs) <> 0"""
TOTALS = Query("totals", (), total_from_row, text=_TOTALS)
UNFINISHED = Query("unfinished", (), unfinished_from_row)
UNFINISHED_ATTEMPTS = Query("unfinished_attempts", (), attempts_from_row)  # type, attempts used, jobs
# each job is read by its id: a join might be turned round, and read all jobs
# Plain SQL may say that a job runs, and no one has claimed it.
RUNNING_ROWS = """(
      select (select queue from <job> where id = job_id) as queue, (select type from <job> where id = job_id) as type,
        attempt from <claim>
      union all
      select queue, type, attempt from <job> as job <indexed:job_waiting> where status = <running>
        and not exists (select 1 from <claim> where job_id = job.id <as_written>)) as running where queue is not null"""
_RUNNING_PART = (
    f"select cast(queue as text), cast(type as text), attempt, count(*) from {RUNNING_ROWS} group by 1, 2, 3"
)
RUNNING_PART = Query("running_part", (), lambda row: cast("tuple[str, str, int, int]", row), text=_RUNNING_PART)


def _waiting_part(name: str, status: str, rows: str, since: str | None, *places: str) -> WaitingPart:
    """`rows` is a table and a condition; `since` is from when a job waits."""
    place = ", ".join(places)
    following = f"{rows} and <after:{place}> order by queue, type, {place}"
    end = f"<int:{3 + len(places)}>"
    oldest = "null" if since is None else "<ms_or_null:min(since)>"
    kinds = (Text, Text, *(Int for _ in places), Int)
    next_group = f"""
    select cast(queue as text), cast(type as text) from {rows} and (queue, type) > (<text:1>, <text:2>)
    order by queue, type limit 1"""
    part = f"""
    select attempt, count(*), {oldest} from (
      select attempt, {since or "null"} as since from {following} limit {end}) as part
    group by attempt"""
    return WaitingPart(
        status,
        Query(f"next_group_of_{name}", (Text, Text), lambda row: cast("tuple[str, str]", row), text=next_group),
        Query(f"part_of_{name}", kinds, row_as(Part), text=part),
        Query(
            f"last_place_of_{name}",
            kinds,
            lambda row: cast("tuple[int, ...]", row),
            text=f"select {place} from {following} limit 1 offset {end}",
        ),
        (-(2**63),) * len(places),
    )


_DUE_SINCE = "<greatest:run_at, created_at>"
WAITING_PARTS = (
    _waiting_part("ready", "pending", "<ready> where true", "since", "rank", "turn", "id"),
    _waiting_part(
        "held", "pending", "<job> <indexed:job_held> where status = <pending> and held is not null", _DUE_SINCE, "id"
    ),
    _waiting_part("scheduled", "scheduled", "<job> <indexed:job_waiting> where status = <scheduled>", _DUE_SINCE, "id"),
    _waiting_part("blocked", "blocked", "<job> <indexed:job_waiting> where status = <blocked>", None, "id"),
)
# the catalogue finds queries in tuples
NEXT_GROUPS, PARTS, LAST_BOUNDARIES = (
    tuple(getattr(one, kind) for one in WAITING_PARTS) for kind in ("next_group", "part", "last_place")
)
_NEWEST_ID = "select coalesce((select id from <job> order by id desc limit 1), 0)"
NEWEST_ID = Query("newest_id", (), number_from_row, text=_NEWEST_ID)
# of jobs with at least this id, between two times
_ARRIVALS = """
    select queue, type, count(*) filter (where created_at between <time:2> and <time:3>),
           count(*) filter (where created_at < <time:2>),
           <ms:min(created_at) filter (where created_at between <time:2> and <time:3>)>
    from <job> where id >= <bigint:1> group by queue, type"""
ARRIVALS = Query("arrivals", (Int, Ms, Ms), row_as(Arrived), text=_ARRIVALS)
# of one queue or all, and of one task or all
_OF_GROUP = "(<text:4> = '' or queue = <text:4>) and (<text:5> = '' or type = <text:5>)"
# likewise since a time, in periods of a number of milliseconds
_ARRIVALS_BY_PERIOD = f"""
    select <ms:created_at> / <bigint:3>, count(*) from <job>
    where id >= <bigint:1> and created_at >= (select <time:2>) and {_OF_GROUP} group by 1"""
ARRIVALS_BY_PERIOD = Query(
    "arrivals_by_period", (Int, Ms, Int, Text, Text), lambda row: cast("tuple[int, int]", row), text=_ARRIVALS_BY_PERIOD
)
FIRST_JOB = Query("first_job", (), row_as(First), text="select id, <ms:created_at> from <job> order by id limit 1")
# For each time, from one id up to another, in steps that are halved: ids rise with the time of creation. Each step
# reads one row by its primary key, in whatever order the rows are.
_FROM_ID = "from <job> as job where job.id {} order by job.id limit 1"
_BOUNDARIES = f"""
    with recursive place (at, id, step) as (
      select given.id, <bigint:2>, <bigint:4> from <ids:1>
      union all
      select place.at,
             case when place.step <= <bigint:3> - place.id
                       and (select <ms:job.created_at> {_FROM_ID.format(">= place.id + place.step")}) < place.at
                  then place.id + place.step else place.id end,
             place.step / 2
      from place where place.step > 0)
    select place.at, place.id, (select <ms:job.created_at> {_FROM_ID.format("= place.id")}),
           (select job.id {_FROM_ID.format("> place.id")}), (select <ms:job.created_at> {_FROM_ID.format("> place.id")})
    from place where place.step = 0"""
BOUNDARIES = Query("boundaries", (Ids, Int, Int, Int), row_as(Boundary), text=_BOUNDARIES)
# through indexes that hold what is counted
_PENDING_GROUPS = """
    select queue, type, sum(jobs) from (
      select queue, type, count(*) as jobs from <ready> group by queue, type
      union all
      select queue, type, count(*) as jobs from <job> <indexed:job_held> where status = <pending> and held is not null
      group by queue, type) as pending
    group by queue, type"""
PENDING_GROUPS = Query("pending_groups", (), pending_from_row, text=_PENDING_GROUPS)
# the first tags, each found by its own search
_TAGS = """
    with recursive found (tag) as (
      select (select min(tag) from <job_tag>)
      union all
      select (select min(tag) from <job_tag> as next where next.tag > found.tag) from found where found.tag is not null
    )
    select tag from found where tag is not null limit <int:1>"""
TAGS = Query("tags", (Int,), text_from_row, text=_TAGS)
# history and tallies between two times, and what a column must be
PAST = """
    (select {0} from <history> where at between (select <time:1>) and (select <time:2>) and {1}
     union all
     select {0} from <tally> where at between (select <time:1>) and (select <time:2>) and {1}) as past"""
ANY_OUTCOME = f"outcome not in {literals(SAMPLES)}"  # nor null
_ENDED = f"""
    select queue, type, outcome, sum(jobs) from {PAST.format("queue, type, outcome, jobs", ANY_OUTCOME)}
    group by 1, 2, 3"""
ENDED = Query("ended", (Ms, Ms), sum_as(EndedCount), text=_ENDED)
_ENDED_BY_ERROR = f"""
    select type, error_code, outcome, sum(jobs)
    from {PAST.format("type, error_code, outcome, jobs", f"outcome in {literals(UNSUCCESSFUL)}")}
    group by 1, 2, 3"""
ENDED_BY_ERROR = Query("ended_by_error", (Ms, Ms), sum_as(EndedByError), text=_ENDED_BY_ERROR)
# in periods of a number of milliseconds
_PERIODS = (Ms, Ms, Int, Text, Text)
_ENDED_BY_PERIOD = f"""
    select <ms:at> / <bigint:3>, outcome, error_code, sum(jobs)
    from {PAST.format("at, outcome, error_code, jobs", f"{ANY_OUTCOME} and {_OF_GROUP}")}
    group by 1, 2, 3"""
ENDED_BY_PERIOD = Query("ended_by_period", _PERIODS, sum_as(EndedInPeriod), text=_ENDED_BY_PERIOD)
_SAMPLES_BY_PERIOD = f"""
    select <ms:at> / <bigint:3>, outcome, error_code, sum(jobs) from <history>
    where at between (select <time:1>) and (select <time:2>)
      and (outcome in {literals((SAMPLED, DEPLOYED))} or (outcome = '{PENDING_SAMPLE}' and {_OF_GROUP}))
    group by 1, 2, 3"""
SAMPLES_BY_PERIOD = Query("samples_by_period", _PERIODS, sum_as(EndedInPeriod), text=_SAMPLES_BY_PERIOD)
_WITH_DURATIONS = "outcome is not null and (waits <> '{}' or runs <> '{}')"
_DURATIONS_BY_PERIOD = f"""
    select <ms:at> / <bigint:3>, waits, runs
    from {PAST.format("at, waits, runs", f"{_WITH_DURATIONS} and {_OF_GROUP}")}"""
DURATIONS_BY_PERIOD = Query("durations_by_period", _PERIODS, period_durations_from_row, text=_DURATIONS_BY_PERIOD)
_ENDED_BY_GROUP = f"""
    select <ms:at> / <bigint:3>, queue, type, outcome, sum(jobs)
    from {PAST.format("at, queue, type, outcome, jobs", ANY_OUTCOME)}
    group by 1, 2, 3, 4"""
ENDED_BY_GROUP = Query("ended_by_group", (Ms, Ms, Int), sum_as(EndedOfGroup), text=_ENDED_BY_GROUP)
_DURATIONS = f"""
    select queue, type, waits, runs
    from {PAST.format("queue, type, waits, runs", _WITH_DURATIONS)}"""
DURATIONS = Query("durations", (Ms, Ms), durations_from_row, text=_DURATIONS)
# groups of jobs that wait after an attempt with an error; of one group, the number up to a limit, and the highest id
WAITING_GROUPS = Query("waiting_groups", (), lambda row: WaitingGroup(*(text(value) or "" for value in row)))
WAITING_ERRORS = Query("waiting_errors", (Text, Text, Text, Int), pair_from_row)
_DETAILS = "select id, error_detail, <text_of:type> from <job> where id <in_ids:1>"
DETAILS = Query("details", (Ids,), detail_from_row, text=_DETAILS)
ERROR_SPANS = Query("error_spans", (Json,), error_span_from_row)
LAST_SEEN = "coalesce(job.heartbeat_at, job.started_at, job.claimed_at, job.created_at)"
RUNNING = Query("running", (Int,), running_from_row)  # the longest without a heartbeat first

# Folding removes what it returns. Rows that another transaction has locked are left to it.
REMOVE_TALLIES = Query("remove_tallies", (Ms, Int), tally_from_row)
_FIRST_PAST = """
    delete from <history> where id <in_rows>
      select id from <history> where {} order by at limit <int:2> <for_update> <skip_locked> <end_rows>"""
# the time of the first history before a time that is in spans of fewer milliseconds
_FIRST_SHORTER = (
    "select <ms:at> from <history> where at < (select <time:1>) and span_ms < <bigint:2> order by at limit 1"
)
FIRST_SHORTER = Query("first_shorter", (Ms, Int), number_from_row, text=_FIRST_SHORTER)
# the same between two times: what belongs together is removed together, and becomes one row
_REMOVE_SHORTER = """
    delete from <history> where id <in_rows>
      select id from <history> where at >= (select <time:1>) and at < (select <time:2>) and span_ms < <bigint:3>
      order by queue, type limit <int:4> <for_update> <skip_locked> <end_rows>
    returning <ms:at>, span_ms, queue, type, outcome, error_code, jobs, waits, runs"""
REMOVE_SHORTER = Query("remove_shorter", (Ms, Ms, Int, Int), past_from_row, text=_REMOVE_SHORTER)
# in one order, so that no two transactions wait for each other
_ADD_TOTALS = f"""
    insert into <total> as total (status, queue, type, error_code, attempt, jobs)
    select <fields:text text text text int bigint> from <rows:1> where true order by 1, 2, 3, 4, 5
    on conflict (status, queue, type, error_code, attempt) do update
      set jobs = <greatest:-{MOST_SUMMED}, <least:{MOST_SUMMED}, total.jobs + excluded.jobs>>"""
ADD_TOTALS = Query("add_totals", (Json,), text=_ADD_TOTALS)
DROP_EMPTY_TOTALS = Query("drop_empty_totals")
_ADD_PAST = """
    insert into <history> (at, span_ms, queue, type, outcome, error_code, jobs, waits, runs)
    select <fields:time bigint text text text text bigint json json> from <rows:1>"""
ADD_PAST = Query("add_past", (Json,), text=_ADD_PAST)
PRUNE_PAST = Change("prune_past", (Ms, Int), text=_FIRST_PAST.format("at < <time:1>"))
PRUNE_FUTURE = Change("prune_future", (Ms, Int), text=_FIRST_PAST.format("at > <time:1>"))

FINISHED_GROUPS = Query("finished_groups", (), group_from_row)
# the same, with when the oldest job of each group finished
OLDEST_FINISHED = Query("oldest_finished", (), oldest_from_row)
# the oldest jobs of a group that finished before a time, with everything that belongs to them
PRUNE = Change("prune", (Text, Text, Text, Ms, Int))
# how many of a group finished before a time (None: not asked), up to a number, and when the oldest did
PRUNABLE = Query("prunable", (Text, Text, Text, Ms, Int), prunable_from_row)
SIZE_BYTES = Query("size_bytes", (), number_from_row)
HEALTH = Query("health", (), row_as(StoreHealth), only=("postgres",))

# Counting all finished jobs again, by one statement: what the tallies say that it sees is not counted twice. First, the
# servers wait for transactions that fold tallies, and PostgreSQL for all that write them; later ones wait for this one.
LOCK_TALLIES = Query("lock_tallies", only=("postgres", "mysql"))
_FINISH_FINISHED = "update <job> set finished_at = created_at where status in <finished> and finished_at is null"
FINISH_FINISHED = Query("finish_finished", text=_FINISH_FINISHED)
DROP_TOTALS = Query("drop_totals", text="delete from <total>")
_COUNT_FINISHED = f"""
    insert into <total> (status, queue, type, error_code, attempt, jobs)
    select status, queue, type, code, attempt, sum(jobs) from (
      select status, queue, type, coalesce(cast(error_code as text), '') as code,
             <least:attempt, {MOST_ATTEMPTS_COUNTED}> as attempt, 1 as jobs
      from <job> where finished_at is not null and status in <finished>
      union all
      select status, queue, type, error_code, attempt, -jobs from <tally> where status is not null) as counted
    group by 1, 2, 3, 4, 5 having sum(jobs) <> 0"""
COUNT_FINISHED = Query("count_finished", text=_COUNT_FINISHED)

# settings that all processes share
DUTY_PREFIX = "duty of "
"""What the names of settings begin with that say when a worker last did a regular duty."""
SETTINGS = Query("settings", (), setting_from_row, text="select name, value from <setting>")
_PUT_SETTING = """
    insert into <setting> (name, value) values (<text:1>, <text:2>)
    on conflict (name) do update set value = excluded.value"""
_ADD_SETTING = "insert into <setting> (name, value) values (<text:1>, <text:2>) on conflict (name) do nothing"
ADD_SETTING = Query("add_setting", (Text, Text), text=_ADD_SETTING)
PUT_SETTING = Query("put_setting", (Text, Text), text=_PUT_SETTING)
_ANSWER_SETTING = "update <setting> set value = <text:2> where name = <text:1> and value = ''"
ANSWER_SETTING = Query("answer_setting", (Text, Text), text=_ANSWER_SETTING)  # nothing, if no one waits any more
SETTING = Query("setting", (Text,), text_from_row, text="select value from <setting> where name = <text:1>")
DROP_SETTING = Query("drop_setting", (Text,), text="delete from <setting> where name = <text:1>")
UPKEEP_STATE = Query("upkeep_state", (Now,), upkeep_from_row)
_ONCE_EVERY = """
    insert into <setting> as setting (name, value)
    select <text:2>, cast(now as text) from (select <ms:(select <now>)> as now) as moment where true
    on conflict (name) do update set value = excluded.value
    where cast(setting.value as bigint) <= cast(excluded.value as bigint) - <bigint:3>
       or cast(setting.value as bigint) > cast(excluded.value as bigint)
    returning name"""
ONCE_EVERY = Query("once_every", (Now, Text, Int), text=_ONCE_EVERY)  # returns a row to one caller in each period
