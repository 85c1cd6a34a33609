"""Find the jobs that fit a filter, page by page.

Jobs are read in the order of an index that holds all that can fit, and few others. Each is then compared with the whole
filter. So a page costs as much as its own jobs where an index knows the filter. Elsewhere it ends after `LOOK_AT_MOST`
jobs, or when its time is over, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rowcall.domain.job import FINISHED, Job, Status
from rowcall.store.dialect import HIGHEST, LOWEST, Dialect, Filter, Order, Place, Span
from rowcall.store.queries.claims import task_of
from rowcall.store.queries.counts import NEWEST_ID
from rowcall.store.queries.jobs import FIRST_FROM
from rowcall.store.statement import Parameter, Plan, as_json

LOOK_AT_MOST = 100_000
LARGEST_CHUNK = 5_000


class Found(NamedTuple):
    """Jobs that fit, the place of the last one, or None if no other can follow, and how many were looked at."""

    jobs: list[Job]
    place: Place | None
    looked_at: int
    is_partial: bool = False
    """Whether it ended before it had a whole page."""


def find(
    dialect: Dialect,
    job_filter: Filter,
    order: Order,
    after: Place | None,
    limit: int,
    go_on: Callable[[], bool] = lambda: True,
) -> Plan[Found]:
    """Return the next jobs that fit, behind a place in the order. It ends early when `go_on()` returns false."""
    span = yield from _span_of(dialect, job_filter, order, after)
    fitting: list[tuple[Place, Job]] = []
    looked_at, size, by_payload = 0, limit + 1, False
    while True:
        places = yield from dialect.places(job_filter, order, span, size, by_payload=by_payload)
        jobs = {job.id: job for job in (yield from dialect.matching(job_filter, [place[-1] for place in places]))}
        fitting += [(place, jobs[place[-1]]) for place in places if place[-1] in jobs]
        looked_at += len(places)
        if len(fitting) > limit:
            return Found([job for _, job in fitting[:limit]], fitting[limit - 1][0], looked_at)
        if len(places) < size:
            return Found([job for _, job in fitting], None, looked_at)
        if looked_at >= LOOK_AT_MOST or not go_on():
            return Found([job for _, job in fitting], places[-1], looked_at, is_partial=True)
        span = span.behind(places[-1], order)
        size = min(max(4 * size, 200), LARGEST_CHUNK)
        by_payload = by_payload or (job_filter.payload is not None and (yield from dialect.has_payload_index()))


def _span_of(dialect: Dialect, job_filter: Filter, order: Order, after: Place | None) -> Plan[Span]:
    if order.by_end:
        low, high = job_filter.finished_after_ms, job_filter.finished_before_ms
        units = dialect.units_per_ms
        span = Span((LOWEST if low is None else low * units, 0), (HIGHEST if high is None else high * units, 0))
    else:
        span = yield from _ids_created(dialect, job_filter.created_after_ms, job_filter.created_before_ms)
    return span if after is None else span.behind(after, order)


def _ids_created(dialect: Dialect, after_ms: int | None, before_ms: int | None) -> Plan[Span]:
    """Return a span with the ids of jobs that were created then: in a large table, ids rise with time."""
    low, high = LOWEST, HIGHEST
    if after_ms is not None or before_ms is not None:
        (last,) = yield from dialect.ask(NEWEST_ID)
        for first, _ in (yield from dialect.ask(FIRST_FROM, LOWEST)):
            if last - first > LOOK_AT_MOST:
                low = low if after_ms is None else (yield from _first_created(dialect, after_ms, first, last)) - 1
                high = high if before_ms is None else (yield from _first_created(dialect, before_ms, first, last))
    return Span((low,), (high,))


def _first_created(dialect: Dialect, moment_ms: int, first: int, last: int) -> Plan[int]:
    """Return the id from which on jobs were created at that time or later, by halving."""
    end = last + 1
    while first < end:
        middle = (first + end) // 2
        ((found, created_at_ms),) = yield from dialect.ask(FIRST_FROM, middle)
        if created_at_ms < moment_ms:
            first = found + 1
        else:
            end = middle
    return end


class Source(NamedTuple):
    """An index whose entries are in the order of places within each group of equal `columns`.

    An index in another order names its column in `place`, which equals the id for all jobs that fit. Without an index
    it is the primary key of the table.
    """

    index_name: str
    proof: str
    columns: tuple[str, ...]
    place: tuple[str, ...] = ("id",)
    fitting: str = ""
    table: str = "job"


_READY = Source("", "true", ("queue", "type", "rank"), ("turn",), "and turn = id", "ready")
_TURNED = Source("ready_turned", "turn <> id", ("queue", "type"), table="ready")
_HELD = Source("job_held", "status = <pending> and held is not null", ("queue", "type"))
_SCHEDULED = Source("job_waiting", "status = <scheduled>", ("queue", "type"))
_BLOCKED = Source("job_waiting", "status = <blocked>", ("queue", "type"))
FINISHED_SOURCE = Source("job_finished", "finished_at is not null", ("status", "queue", "type"))
BY_END = Source("job_aged", "finished_at is not null", ("status", "queue", "type"), ("finished_at", "id"))
BY_ERROR = Source("job_error", "error_code is not null", ("status", "error_code", "type"))
# of these the group is given; a chain is read as a whole
BY_ID = Source("", "true", ())
BY_KEY = Source("job_key", "key is not null", ("type", "key"))
BY_TAG = Source("", "true", ("tag",), ("job_id",), table="job_tag")
BY_TAG_AND_STATUS = Source("job_tag_status", "true", ("tag", "status"), ("job_id",), table="job_tag")
BY_BATCH = Source("job_batch", "batch_id is not null", ("batch_id", "status"))
BY_PARENT = Source("job_parent", "parent_id is not null", ("parent_id", "status"))
BY_CHAIN = Source("job_chain", "chain_id is not null", ("chain_id",))

HOPPED = (_READY, _TURNED, _HELD, _SCHEDULED, _BLOCKED, FINISHED_SOURCE, BY_END, BY_ERROR)
_BY_STATUS: dict[Status, tuple[Source, ...]] = {
    Status.PENDING: (_READY, _TURNED, _HELD),
    Status.SCHEDULED: (_SCHEDULED,),
    Status.BLOCKED: (_BLOCKED,),
    Status.RUNNING: (),
    **dict.fromkeys(FINISHED, (FINISHED_SOURCE,)),
}
Group = tuple[str | int, ...]


class Sources(NamedTuple):
    """Where to look: indexes whose groups are found first, a group that is known, and among running jobs."""

    hopped: tuple[Source, ...] = ()
    known: tuple[tuple[Source, Group], ...] = ()
    running: bool = False


def sources_of(job_filter: Filter, order: Order) -> Sources:
    """Return what to read. Running jobs are few, and all are read."""
    if order.by_end:
        return Sources((BY_END,))
    if job_filter.key is not None and job_filter.type is not None:
        return Sources(known=((BY_KEY, (job_filter.type, job_filter.key)),))
    if job_filter.chain_id is not None:
        return Sources(known=((BY_CHAIN, (job_filter.chain_id,)),))
    if job_filter.tag is not None and job_filter.statuses is None:
        return Sources(known=((BY_TAG, (job_filter.tag,)),))
    groups = (BY_TAG_AND_STATUS, job_filter.tag), (BY_BATCH, job_filter.batch_id), (BY_PARENT, job_filter.parent_id)
    for source, value in groups:
        if value is not None:
            # the row and the tags of a claimed job say that it is pending
            statuses = job_filter.statuses or tuple(Status)
            running = Status.RUNNING in statuses and Status.PENDING not in statuses
            stored = [status.value for status in statuses if not running or status is not Status.RUNNING]
            return Sources(known=tuple((source, (value, status)) for status in stored), running=running)
    if job_filter.error_code is not None:
        return Sources((BY_ERROR,))
    if job_filter.statuses is None and job_filter.queue is None and job_filter.type is None:
        return Sources(known=((BY_ID, ()),))
    statuses = tuple(Status) if job_filter.statuses is None else job_filter.statuses
    hopped = dict.fromkeys(source for status in statuses for source in _BY_STATUS[status])
    return Sources(tuple(hopped), running=Status.RUNNING in statuses)


# plain SQL may have set `finished_at` of a job that has not finished: another index lists it
IS_FINISHED = "status in <finished>"


def fits(source: Source, group: tuple[object, ...], job_filter: Filter) -> bool:
    """Return whether jobs of a group of an index can fit the filter."""
    of_group = dict(zip(source.columns, group, strict=True))
    if source.table == "ready":
        of_group["type"] = task_of(str(of_group["type"]))
    status, code = of_group.get("status"), of_group.get("error_code")
    return (
        (source is not FINISHED_SOURCE or status in FINISHED)
        and (status is None or job_filter.statuses is None or status in job_filter.statuses)
        and all(of_group.get(name, value) == value for name, value in job_filter.names())
        and (code is None or job_filter.error_code is None or is_like(str(code), job_filter.error_code))
    )


def is_like(error_code: str, pattern: str) -> bool:
    """
    >>> is_like("TIMEOUT:HANDLER", "TIMEOUT:*"), is_like("TIMEOUT:HANDLER", "TIMEOUT")
    (True, False)
    """
    return error_code.startswith(pattern[:-1]) if pattern.endswith("*") else error_code == pattern


def conditions_of(job_filter: Filter) -> tuple[str, list[Parameter]]:
    """Return the filter as a condition on a table called `job`, and its parameters from the second on."""
    conditions, values = ["true"], []
    for number, (condition, value) in enumerate(_conditions(job_filter), start=2):
        conditions.append(condition.replace("#", str(number)))
        values.append(value)
    return " and ".join(conditions), values


def _conditions(job_filter: Filter) -> Iterator[tuple[str, Parameter]]:
    if job_filter.statuses is not None:
        yield "job.status <in_texts:#>", as_json(job_filter.statuses)
    for name, value in job_filter.names():
        yield f"job.{name} = <text:#>", value
    if job_filter.chain_id is not None:
        yield "job.chain_id = <bigint:#>", job_filter.chain_id
    if job_filter.batch_id is not None:
        yield "job.batch_id = <bigint:#>", job_filter.batch_id
    if job_filter.parent_id is not None:
        yield "job.parent_id = <bigint:#>", job_filter.parent_id
    if job_filter.tag is not None:
        yield "exists (select 1 from <job_tag> as tagged where tag = <text:#> and job_id = job.id)", job_filter.tag
    if job_filter.error_code is not None:
        yield error_condition("job.error_code", job_filter.error_code)
    for column, after_ms, before_ms in (
        ("job.created_at", job_filter.created_after_ms, job_filter.created_before_ms),
        ("job.finished_at", job_filter.finished_after_ms, job_filter.finished_before_ms),
    ):
        if after_ms is not None:
            yield f"<is_time:{column}> and {column} >= <time:#>", after_ms
        if before_ms is not None:
            yield f"<is_time:{column}> and {column} < <time:#>", before_ms
    if job_filter.payload is not None:
        yield "<payload_holds:#>", job_filter.payload


def error_condition(column: str, pattern: str) -> tuple[str, str]:
    """Return the condition, with its only parameter as `<text:#>`, and the value of that."""
    equal = f"substr({column}, 1, length(<text:#>)) = <text:#>" if pattern.endswith("*") else f"{column} = <text:#>"
    return equal, pattern.removesuffix("*")
