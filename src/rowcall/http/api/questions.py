"""The questions of the person on call: how many, how fast, what fails, what is stuck, what is kept."""

from __future__ import annotations

from rowcall.domain.attention import Finding
from rowcall.domain.job import Activity, ErrorGroup, Failing, InProgress, RetentionReport, Retries, Stats
from rowcall.domain.value import Value
from rowcall.http.endpoint import Call, EndpointInput
from rowcall.operations import stats
from rowcall.operations.stats import DEFAULT_ACTIVITY_SECONDS, DEFAULT_WINDOW_SECONDS


class WindowQuery(EndpointInput, frozen=True, kw_only=True):
    """`window` is the period of rates, in seconds."""

    window: float = DEFAULT_WINDOW_SECONDS


class ActivityQuery(EndpointInput, frozen=True, kw_only=True):
    """What happened in `window` seconds, of one queue and one task, or of all."""

    window: float = DEFAULT_ACTIVITY_SECONDS
    queue: str | None = None
    type: str | None = None


class ErrorsQuery(WindowQuery, frozen=True, kw_only=True):
    """Errors of one task, or with one code; one that ends with `*` matches all that begin so."""

    type: str | None = None
    error_code: str | None = None
    limit: int = 20


class LimitQuery(EndpointInput, frozen=True, kw_only=True):
    """`limit` is the highest number of entries."""

    limit: int = 20


class Errors(Value, frozen=True, kw_only=True):
    """Failed jobs by error code, and what fails now."""

    errors: list[ErrorGroup]
    failing: list[Failing]


class Stuck(Value, frozen=True, kw_only=True):
    """Running jobs, longest without a heartbeat first."""

    jobs: list[InProgress]


class Attention(Value, frozen=True, kw_only=True):
    """What needs attention, most urgent first."""

    findings: list[Finding]


async def get_attention(call: Call) -> Attention:
    """List what needs attention: no worker, a full limit, a task that fails, a late schedule, little disk space."""
    return Attention(findings=await call.attention())


async def get_stats(call: Call, query: WindowQuery) -> Stats:
    """Count jobs by state, queue and task, with recent rates and percentiles."""
    return await call.stats(query.window)


async def get_activity(call: Call, query: ActivityQuery) -> Activity:
    """Return arrivals, ends, times and errors over time, with new code and times without a worker."""
    return await call.read(stats.activity(call.queue, window=query.window, queue=query.queue, type=query.type))


async def get_errors(call: Call, query: ErrorsQuery) -> Errors:
    """Group failed jobs by error code, and attempts that failed within the window."""
    queue, task, code, limit = call.queue, query.type, query.error_code, query.limit
    groups = await call.read(stats.top_errors(queue, type=task, error_code=code, limit=limit))
    failing = await call.read(stats.failing(queue, window=query.window, type=task, error_code=code, limit=limit))
    return Errors(errors=call.all_scrubbed(groups), failing=call.all_scrubbed(failing))


async def get_stuck(call: Call, query: LimitQuery) -> Stuck:
    """List running jobs, longest without a heartbeat first."""
    return Stuck(jobs=call.all_scrubbed(await call.read(stats.stuck(call.queue, limit=query.limit))))


async def get_retries(call: Call) -> Retries:
    """Count jobs by the number of their attempts."""
    return await call.counts.attempts.read(call.patience_seconds)


async def get_retention(call: Call) -> RetentionReport:
    """Return which finished jobs are kept, for how long, and what the next prune deletes."""
    return await call.read(stats.retention(call.queue))
