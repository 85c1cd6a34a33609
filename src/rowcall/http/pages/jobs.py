"""Jobs: a page of the jobs that match, and the question before all of them are changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlencode

from starlette.requests import Request

from rowcall.actions import ON_ALL
from rowcall.domain.errors import InvalidOption
from rowcall.domain.job import WAITING, Status
from rowcall.http.api import job_changes
from rowcall.http.api.filters import BodyFilter, Chosen, JobsQuery
from rowcall.http.api.job_changes import JobAnswer
from rowcall.http.api.jobs import list_jobs
from rowcall.http.endpoint import Call
from rowcall.http.guard import base_path, local_path
from rowcall.http.pages.forms import query_of
from rowcall.http.problems import Problem, problem_of
from rowcall.http.shared_counts import StillCounting
from rowcall.operations import inspect
from rowcall.operations.stats import known_errors, known_tags
from rowcall.overview.liveness import described, time_now
from rowcall.overview.reasons import why_each

MOST_SUGGESTED = 100
_FILTERS = tuple(name for name in JobsQuery.__struct_fields__ if name not in ("order", "limit", "cursor"))


async def job_list(call: Call, request: Request) -> dict[str, object]:
    parameters = request.query_params.multi_items()
    query, problem, page = JobsQuery(), None, None
    try:
        query = query_of(request, JobsQuery)
        page = await list_jobs(call, query)
    except (InvalidOption, Problem) as error:  # a filter that was typed wrong: say so next to it
        problem = problem_of(error)
    jobs = page.jobs if page is not None else []
    now = await call.read(time_now(call.queue))
    waiting = [job for job in jobs if job.status in WAITING]
    whys = await call.read(why_each(call.queue, waiting)) if waiting else {}
    running = any(job.status == Status.RUNNING for job in jobs)
    workers = await call.read(inspect.workers(call.queue)) if running else []
    filters = [(name, value) for name, value in parameters if name in _FILTERS and value]
    return {
        "page": "jobs",
        "jobs": jobs,
        "next_cursor": page.next_cursor if page is not None else None,
        "partial": page is not None and page.partial,
        "searched": 0 if page is None else page.searched,
        "problem": problem,
        "whys": {job_id: call.scrubbed(why) for job_id, why in whys.items()},
        "states": {worker.name: described(worker, now) for worker in workers},
        "given": query,
        "filters": filters,
        **await suggestions(call, filters),
        "filter_query": urlencode(filters),
        "actions": ON_ALL,
        "now": now,
    }


async def suggestions(call: Call, filters: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return values for the filters, and counts for the tabs if only a queue and a task are chosen."""
    try:
        jobs: Counter[tuple[str, str, str]] = (await call.counts.jobs.read(call.patience_seconds)).jobs
    except StillCounting:
        jobs = Counter()
    chosen, by_status = dict(filters), Counter[str]()
    for (status, named, task), count in jobs.items():
        if chosen.get("queue", named) == named and chosen.get("type", task) == task:
            by_status[status] += count
    is_known = bool(jobs) and chosen.keys() <= {"status", "queue", "type"}
    return {
        "by_status": by_status if is_known else None,
        "suggested": {
            "queue": sorted({named for _, named, _ in jobs})[:MOST_SUGGESTED],
            "type": sorted({task for _, _, task in jobs})[:MOST_SUGGESTED],
            "tag": await call.read(known_tags(call.queue, MOST_SUGGESTED)),
            "error_code": await call.read(known_errors(call.queue, MOST_SUGGESTED)),
        },
    }


class ConfirmQuery(Chosen, frozen=True, kw_only=True):
    action: Literal["retry", "cancel", "delete", "reschedule", "priority"]
    ids: list[int] | None = None
    payload: str | None = None
    back: str = ""


async def confirm(call: Call, request: Request) -> dict[str, object]:
    """Show how many jobs an action is about, before it is done."""
    if not call.access.may_operate:
        raise Problem(403, "Forbidden", f"{call.actor} may read, but not change anything")
    query = query_of(request, ConfirmQuery)
    chosen = query.given()
    body = BodyFilter(**chosen)  # type: ignore[arg-type]
    counting = job_changes.Bulk(filter=body, ids=query.ids, all=True, dry_run=True)
    counted = await job_changes.count(call, counting, ON_ALL[query.action])
    succeeded = await succeeded_of(call, query.ids or ()) if query.action == "retry" else []
    filters = [(name, value) for name, value in request.query_params.multi_items() if name in _FILTERS and value]
    return {
        "page": "jobs",
        "action": query.action,
        "ids": query.ids,
        "filters": filters,
        "back": local_path(request, query.back or f"{base_path(request.scope)}/jobs?{urlencode(filters)}"),
        "counted": counted,
        "succeeded": succeeded,
        "any_succeeded": bool(succeeded) or (query.action == "retry" and Status.SUCCEEDED in (query.status or ())),
        "now": await call.read(time_now(call.queue)),
    }


async def succeeded_of(call: Call, ids: Sequence[int]) -> list[int]:
    """Return which of the jobs have succeeded: a retry deletes their results, so a person is asked first."""
    return [job.id for job in await call.read(inspect.get_rows(call.queue, ids)) if job.status is Status.SUCCEEDED]


class AskFirst(Exception):
    """A form is not carried out: a person has to confirm it."""

    def __init__(self, action: str, job_id: int) -> None:
        self.query = {"action": action, "ids": job_id}


async def retry_job(call: Call, id: int, body: job_changes.Retrying) -> JobAnswer:
    """Run a finished job again; one that has succeeded only after a question, unless a step was chosen."""
    if body.from_step is None and await succeeded_of(call, [id]):
        raise AskFirst("retry", id)
    return await job_changes.retry_job(call, id, body)
