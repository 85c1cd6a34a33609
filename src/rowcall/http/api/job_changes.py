"""Change jobs: one by its id, or all that match a filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from rowcall.actions import CANCEL, DELETE, RESCHEDULE, RETRY, SET_PRIORITY, Action
from rowcall.base.times import time_of
from rowcall.domain.errors import InvalidOption, RowcallError, StoreUnavailable
from rowcall.domain.job import Job
from rowcall.domain.value import Value
from rowcall.http.api.filters import BodyFilter
from rowcall.http.api.jobs import JobOptions
from rowcall.http.endpoint import SEARCH_SECONDS, Call, EndpointInput
from rowcall.http.problems import Problem
from rowcall.operations import by_hand, inspect, job_actions
from rowcall.overview.matching import Selection
from rowcall.queue import Operation

MOST_IDS = 1000

Act = Callable[..., Operation[Any]]


class JobAnswer(Value, frozen=True, kw_only=True):
    """The job after the change."""

    job: Job


class Deleted(Value, frozen=True, kw_only=True):
    """The id of the job that was deleted."""

    id: int


class Retrying(EndpointInput, frozen=True, kw_only=True):
    """`from_step`: keep the recorded steps before this one, and run the rest again."""

    from_step: str | None = None


class Cancelling(EndpointInput, frozen=True, kw_only=True):
    reason: str | None = None


class Rescheduling(EndpointInput, frozen=True, kw_only=True):
    """When to run: at a time, or in some seconds."""

    run_at: datetime | None = None
    delay: float | None = None


class Prioritizing(EndpointInput, frozen=True, kw_only=True):
    priority: int


class Completing(EndpointInput, frozen=True, kw_only=True):
    result: object = None


class Editing(JobOptions, frozen=True, kw_only=True):
    """What to change; fields that are left out stay."""

    arguments: dict[str, object] | None = None


async def retry_job(call: Call, id: int, body: Retrying) -> JobAnswer:
    """Run a finished job again, from the beginning or from a step."""
    return await _changed(call, job_actions.retry(call.queue, id, **_options(call, body)))


async def cancel_job(call: Call, id: int, body: Cancelling) -> JobAnswer:
    """Cancel a waiting job, or ask a running one to end."""
    return await _changed(call, job_actions.cancel(call.queue, id, **_options(call, body)))


async def delete_job(call: Call, id: int) -> Deleted:
    """Delete a job that is not running, with its history."""
    await call.change(job_actions.delete(call.queue, id))
    return Deleted(id=id)


async def reschedule_job(call: Call, id: int, body: Rescheduling) -> JobAnswer:
    """Change when a waiting job runs."""
    return await _changed(call, job_actions.reschedule(call.queue, id, **_options(call, body)))


async def set_job_priority(call: Call, id: int, body: Prioritizing) -> JobAnswer:
    """Change the priority of a job within its queue."""
    return await _changed(call, job_actions.set_priority(call.queue, id, **_options(call, body)))


async def complete_job(call: Call, id: int, body: Completing) -> JobAnswer:
    """Complete a waiting job without running it."""
    await call.change(by_hand.complete(call.queue, id, body.result, actor=call.actor))
    return JobAnswer(job=call.scrubbed(await call.read(inspect.get_row(call.queue, id))))


async def edit_job(call: Call, id: int, body: Editing) -> JobAnswer:
    """Change the arguments, tags or options of a waiting job."""
    return await _changed(call, job_actions.edit(call.queue, id, **_options(call, body)))


def _options(call: Call, body: EndpointInput) -> dict[str, Any]:
    """Return what is given in a body, as the options of an operation."""
    given = {name: value for name in body.__struct_fields__ if (value := getattr(body, name)) is not None}
    return {"actor": call.actor, **given}


async def _changed(call: Call, operation: Operation[Job | int] | Operation[Job]) -> JobAnswer:
    job = await call.change(operation)
    assert isinstance(job, Job)
    return JobAnswer(job=call.scrubbed(job))


# all that match, or several


class Refused(Value, frozen=True, kw_only=True):
    """A job that could not be changed, and why."""

    id: int
    error: str


class ChangedJobs(Value, frozen=True, kw_only=True):
    """How many jobs were changed; with `dry_run`, how many match now. If `exact` is false, there may be more.

    `counted_at` is when they were counted, if that was not now.
    """

    count: int
    exact: bool = True
    dry_run: bool = False
    counted_at: datetime | None = None
    refused: list[Refused] = msgspec.field(default_factory=list)


class Bulk(EndpointInput, frozen=True, kw_only=True):
    """The jobs to change: by their ids, or all that match a filter, and then at most `limit` of them.

    With `dry_run` they are only counted. `all` is required if every job may match.
    """

    filter: BodyFilter = BodyFilter()
    ids: list[int] | None = None
    limit: int | None = None
    all: bool | None = None
    dry_run: bool = False


class BulkRetry(Bulk, frozen=True, kw_only=True):
    """`rate` is how many jobs become due per second."""

    rate: float | None = None


class BulkCancel(Bulk, frozen=True, kw_only=True):
    reason: str | None = None


class BulkReschedule(Bulk, frozen=True, kw_only=True):
    run_at: datetime | None = None
    delay: float | None = None


class BulkPriority(Bulk, frozen=True, kw_only=True):
    priority: int


async def retry_jobs(call: Call, body: BulkRetry) -> ChangedJobs:
    """Run all jobs again that match; failed ones, unless the filter names states."""
    return await _bulk(call, body, RETRY, job_actions.retry)


async def cancel_jobs(call: Call, body: BulkCancel) -> ChangedJobs:
    """Cancel all waiting jobs that match, and ask the running ones to end."""
    return await _bulk(call, body, CANCEL, job_actions.cancel)


async def delete_jobs(call: Call, body: Bulk) -> ChangedJobs:
    """Delete all jobs that match, are not running, and that no other job waits for."""
    return await _bulk(call, body, DELETE, job_actions.delete)


async def reschedule_jobs(call: Call, body: BulkReschedule) -> ChangedJobs:
    """Change when all waiting jobs run that match."""
    return await _bulk(call, body, RESCHEDULE, job_actions.reschedule)


async def set_jobs_priority(call: Call, body: BulkPriority) -> ChangedJobs:
    """Change the priority of all jobs that match and have not finished."""
    return await _bulk(call, body, SET_PRIORITY, job_actions.set_priority)


async def _bulk(call: Call, body: Bulk, action: Action, act: Act) -> ChangedJobs:
    """Act on each of the ids, or on all that match."""
    if body.ids is not None and len(body.ids) > MOST_IDS:
        raise Problem(422, "Invalid value", f"ids must have at most {MOST_IDS:,} entries, got {len(body.ids):,}")
    if body.dry_run:
        return await count(call, body, action)
    all_options = _options(call, body)
    options = {name: all_options[name] for name in action.parameters if name in all_options}
    if body.ids is not None:
        return await _each(call, body.ids, act, options)
    options |= {name: all_options[name] for name in ("limit", "all", "rate") if name in all_options}
    return ChangedJobs(count=await call.change(act(call.queue, **{**body.filter.given(), **options})))


async def count(call: Call, body: Bulk, action: Action) -> ChangedJobs:
    """Count the jobs that an action would change."""
    if body.ids is not None:
        return ChangedJobs(count=len(set(body.ids)), dry_run=True)
    selection = Selection({**body.filter.given(), "limit": body.limit}, action.meant or action.statuses)
    counts = await call.counts.jobs.read(call.patience_seconds) if selection.needs_counts else None
    matching = await call.read(selection.count(call.queue, counts, SEARCH_SECONDS))
    counted_at = None if counts is None else time_of(counts.at_ms)
    return ChangedJobs(count=matching.jobs, exact=matching.exact, dry_run=True, counted_at=counted_at)


async def _each(call: Call, ids: Sequence[int], act: Act, options: Mapping[str, object]) -> ChangedJobs:
    job_ids, refused = list(dict.fromkeys(ids)), []
    for job_id in job_ids:
        try:
            await call.change(act(call.queue, job_id, **options))
        except (StoreUnavailable, InvalidOption):
            raise  # the other jobs would fail in the same way
        except RowcallError as error:
            refused.append(Refused(id=job_id, error=str(error)))
    return ChangedJobs(count=len(job_ids) - len(refused), refused=refused)
