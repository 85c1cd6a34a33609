"""Find the jobs that fit a filter, page by page.

Jobs are read in the order of an index that holds all that can fit, and few others. Each is then compared with the whole
filter. So a page costs as much as its own jobs where an index knows the filter. Elsewhere it ends after `LOOK_AT_MOST`
jobs, or when its time is over, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rowcall.domain.fingerprint import task_of
from rowcall.domain.job import FINISHED, Job, Status
from rowcall.store.catalogue import as_json
from rowcall.store.dialect import HIGHEST, LOWEST, Dialect, Filter, Order, Place, Span
from rowcall.store.queries.counts import NEWEST_ID
from rowcall.store.queries.jobs import FIRST_FROM
from rowcall.store.statement import Parameter, Plan

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
    wanted: Filter,
    order: Order,
    after: Place | None,
    limit: int,
    go_on: Callable[[], bool] = lambda: True,
) -> Plan[Found]:
    """Return the next jobs that fit, behind a place in the order. It ends early when `go_on()` returns false."""
    span = yield from _span_of(dialect, wanted, order, after)
    found: list[tuple[Place, Job]] = []
    looked_at, size, by_payload = 0, limit + 1, False
    while True:
        places = yield from dialect.places(wanted, order, span, size, by_payload=by_payload)
        jobs = {job.id: job for job in (yield from dialect.matching(wanted, [place[-1] for place in places]))}
        found += [(place, jobs[place[-1]]) for place in places if place[-1] in jobs]
        looked_at += len(places)
        if len(found) > limit:
            return Found([job for _, job in found[:limit]], found[limit - 1][0], looked_at)
        if len(places) < size:
            return Found([job for _, job in found], None, looked_at)
        if looked_at >= LOOK_AT_MOST or not go_on():
            return Found([job for _, job in found], places[-1], looked_at, is_partial=True)
        span = span.behind(places[-1], order)
        size = min(max(4 * size, 200), LARGEST_CHUNK)
        by_payload = by_payload or (wanted.payload is not None and (yield from dialect.has_payload_index()))


def _span_of(dialect: Dialect, wanted: Filter, order: Order, after: Place | None) -> Plan[Span]:
    if order.by_end:
        low, high = wanted.finished_after_ms, wanted.finished_before_ms
        units = dialect.units_per_ms
        span = Span((LOWEST if low is None else low * units, 0), (HIGHEST if high is None else high * units, 0))
    else:
        span = yield from _ids_created(dialect, wanted.created_after_ms, wanted.created_before_ms)
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
_SCHEDULED = Source("job_scheduled", "status = <scheduled>", ("queue", "type"))
_BLOCKED = Source("job_blocked", "status = <blocked>", ("queue", "type"))
FINISHED_SOURCE = Source("job_finished", "finished_at is not null", ("status", "queue", "type"))
BY_END = Source("job_aged", "finished_at is not null", ("status", "queue", "type"), ("finished_at", "id"))
BY_ERROR = Source("job_error", "error_code is not null", ("status", "error_code", "type"))
# of these the group is given; a chain is read as a whole
BY_ID = Source("", "true", ())
BY_KEY = Source("job_key", "key is not null", ("type", "key"))
BY_TAG = Source("", "true", ("tag",), ("job_id",), table="job_tag")
BY_TAG_AND_STATUS = Source("job_tag_status", "true", ("tag", "status"), ("job_id",), table="job_tag")
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


def sources_of(wanted: Filter, order: Order) -> Sources:
    """Return what to read. Running jobs are few, and all are read."""
    if order.by_end:
        return Sources((BY_END,))
    if wanted.key is not None and wanted.type is not None:
        return Sources(known=((BY_KEY, (wanted.type, wanted.key)),))
    if wanted.chain_id is not None:
        return Sources(known=((BY_CHAIN, (wanted.chain_id,)),))
    if wanted.tag is not None:
        if wanted.statuses is None:
            return Sources(known=((BY_TAG, (wanted.tag,)),))
        # the tags of a claimed job say that it is pending
        running = Status.RUNNING in wanted.statuses and Status.PENDING not in wanted.statuses
        stored = [status.value for status in wanted.statuses if not running or status is not Status.RUNNING]
        return Sources(known=tuple((BY_TAG_AND_STATUS, (wanted.tag, status)) for status in stored), running=running)
    if wanted.error_code is not None:
        return Sources((BY_ERROR,))
    if wanted.statuses is None and wanted.queue is None and wanted.type is None:
        return Sources(known=((BY_ID, ()),))
    statuses = tuple(Status) if wanted.statuses is None else wanted.statuses
    hopped = dict.fromkeys(source for status in statuses for source in _BY_STATUS[status])
    return Sources(tuple(hopped), running=Status.RUNNING in statuses)


# plain SQL may have set `finished_at` of a job that has not finished: another index lists it
IS_FINISHED = "status in <finished>"


def fits(source: Source, group: tuple[object, ...], wanted: Filter) -> bool:
    """Return whether jobs of a group of an index can fit the filter."""
    of_group = dict(zip(source.columns, group, strict=True))
    if source.table == "ready":
        of_group["type"] = task_of(str(of_group["type"]))
    status, code = of_group.get("status"), of_group.get("error_code")
    return (
        (source is not FINISHED_SOURCE or status in FINISHED)
        and (status is None or wanted.statuses is None or status in wanted.statuses)
        and all(of_group.get(name, value) == value for name, value in wanted.names())
        and (code is None or wanted.error_code is None or is_like(str(code), wanted.error_code))
    )


def is_like(error_code: str, pattern: str) -> bool:
    """
    >>> is_like("TIMEOUT:HANDLER", "TIMEOUT:*"), is_like("TIMEOUT:HANDLER", "TIMEOUT")
    (True, False)
    """
    return error_code.startswith(pattern[:-1]) if pattern.endswith("*") else error_code == pattern


def conditions_of(wanted: Filter) -> tuple[str, list[Parameter]]:
    """Return the filter as a condition on a table called `job`, and its parameters from the second on."""
    conditions, values = ["true"], []
    for number, (condition, value) in enumerate(_conditions(wanted), start=2):
        conditions.append(condition.replace("#", str(number)))
        values.append(value)
    return " and ".join(conditions), values


def _conditions(wanted: Filter) -> Iterator[tuple[str, Parameter]]:
    if wanted.statuses is not None:
        yield "job.status <in_texts:#>", as_json(wanted.statuses)
    for name, value in wanted.names():
        yield f"job.{name} = <text:#>", value
    if wanted.chain_id is not None:
        yield "job.chain_id = <bigint:#>", wanted.chain_id
    if wanted.tag is not None:
        yield "exists (select 1 from <job_tag> as tagged where tag = <text:#> and job_id = job.id)", wanted.tag
    if wanted.error_code is not None:
        yield error_condition("job.error_code", wanted.error_code)
    for column, after_ms, before_ms in (
        ("job.created_at", wanted.created_after_ms, wanted.created_before_ms),
        ("job.finished_at", wanted.finished_after_ms, wanted.finished_before_ms),
    ):
        if after_ms is not None:
            yield f"<is_time:{column}> and {column} >= <time:#>", after_ms
        if before_ms is not None:
            yield f"<is_time:{column}> and {column} < <time:#>", before_ms
    if wanted.payload is not None:
        yield "<payload_holds:#>", wanted.payload


def error_condition(column: str, pattern: str) -> tuple[str, str]:
    """Return the condition, with its only parameter as `<text:#>`, and the value of that."""
    equal = f"substr({column}, 1, length(<text:#>)) = <text:#>" if pattern.endswith("*") else f"{column} = <text:#>"
    return equal, pattern.removesuffix("*")
