"""Read and enqueue jobs."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime
from typing import Literal

import msgspec

from rowcall.declare.option_table import ENQUEUE_OPTIONS, checked
from rowcall.domain.errors import in_row
from rowcall.domain.job import Attempt, BlockedBy, Dependent, Event, Job, Page, Why
from rowcall.domain.job_log import LogLine
from rowcall.domain.step import OpenWait, RecordedStep
from rowcall.domain.value import Value
from rowcall.http.api.filters import JobsQuery
from rowcall.http.endpoint import SEARCH_SECONDS, Call, EndpointInput
from rowcall.http.problems import Problem
from rowcall.operations import enqueue, inspect, job_logs
from rowcall.operations.enqueue import Bound
from rowcall.operations.signals import open_waits_of, step_rows
from rowcall.overview import reasons

MOST_DEPENDENTS = 100
MOST_ROWS = 200
MOST_ENQUEUED = 1000
LONGEST_PAGE = 200
LONGEST_IDEMPOTENCY_KEY = 200
IDEMPOTENT_MS = 24 * 3600 * 1000


async def list_jobs(call: Call, query: JobsQuery) -> Page:
    """List jobs that match, a page at a time."""
    if not 1 <= query.limit <= LONGEST_PAGE:
        raise Problem(422, "Invalid value", f"limit must be from 1 to {LONGEST_PAGE}, got {query.limit}")
    operation = inspect.search(call.queue, query.order, query.limit, query.cursor, None, query.given(), SEARCH_SECONDS)
    page = await call.read(operation)
    return msgspec.structs.replace(page, jobs=call.all_scrubbed(page.jobs))


class JobDetail(Value, frozen=True, kw_only=True):
    """A job, why it waits, its history, its durable steps and open waits, and the trace that it is part of.

    Of attempts, steps, events and lines of the log, the last 200 are here; `shortened` says whether there are more.
    """

    job: Job
    why: Why
    attempts: list[Attempt]
    blockers: list[BlockedBy]
    dependents: list[Dependent]
    steps: list[RecordedStep]
    waits: list[OpenWait]
    timeline: list[Event]
    log: list[LogLine]
    shortened: bool
    trace_id: str | None = None


async def get_job(call: Call, id: int) -> JobDetail:
    """Return everything about one job. A large payload or result, also of a step, is a reference."""
    queue = call.queue
    attempts = await call.read(inspect.last_attempts(queue, id, MOST_ROWS + 1))
    steps = await call.read(step_rows(queue, id, MOST_ROWS + 1))
    timeline = await call.read(inspect.last_events(queue, id, MOST_ROWS + 1))
    lines = await call.read(job_logs.log(queue, id))
    return JobDetail(
        job=call.scrubbed(await call.read(inspect.get_row(queue, id))),
        why=call.scrubbed(await call.read(reasons.why(queue, id))),
        attempts=call.all_scrubbed(attempts[-MOST_ROWS:]),
        blockers=await call.read(inspect.blockers(queue, id)),
        dependents=await call.read(inspect.dependents(queue, id, limit=MOST_DEPENDENTS)),
        steps=call.all_scrubbed(steps[-MOST_ROWS:]),
        waits=call.all_scrubbed(await call.read(open_waits_of(queue, id))),
        timeline=call.all_scrubbed(timeline[-MOST_ROWS:]),
        log=call.all_scrubbed(lines[-MOST_ROWS:]),
        shortened=max(len(attempts), len(steps), len(timeline), len(lines)) > MOST_ROWS,
        trace_id=await call.read(inspect.trace_id(queue, id)),
    )


class JobOptions(EndpointInput, frozen=True, kw_only=True):
    queue: str | None = None
    priority: int | None = None
    delay: float | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    expires_in: float | None = None
    expires_at: datetime | None = None
    tags: list[str] | None = None


class EnqueueItem(JobOptions, frozen=True, kw_only=True):
    """A call of a task by its name, and its options."""

    task: str
    arguments: dict[str, object] = msgspec.field(default_factory=dict)
    target: str | None = None
    key: str | None = None
    key_scope: Literal["active", "waiting", "any"] | None = None
    key_window: float | None = None
    on_duplicate: Literal["return", "replace", "raise"] | None = None
    keep_run_at: bool | None = None
    longest_delay: float | None = None
    deadline: float | None = None
    after: list[int] | None = None


class EnqueueBody(EnqueueItem, frozen=True, kw_only=True):
    """One job, or several as `jobs`, which are written in one transaction."""

    task: str = ""
    jobs: list[EnqueueItem] | None = None


class Enqueued(Value, frozen=True, kw_only=True):
    """The jobs that were written, in the order of the request."""

    jobs: list[Job]


async def enqueue_jobs(call: Call, body: EnqueueBody) -> Enqueued:
    """Enqueue one or more jobs by the names of their tasks, all of them or none.

    With an `Idempotency-Key` header, a repeated request within 24 hours returns the jobs of the first one. Another
    request with the same key is refused.
    """
    new_jobs = [body] if body.jobs is None else body.jobs
    if not 1 <= len(new_jobs) <= MOST_ENQUEUED:
        raise Problem(422, "Invalid value", f"jobs must have 1 to {MOST_ENQUEUED:,} entries, got {len(new_jobs):,}")
    calls: list[Bound] = []
    for new in new_jobs:
        with in_row(new_jobs, len(calls)):
            calls.append(_bound(call, new))
    if call.idempotency_key is None:
        jobs = await call.write(enqueue.enqueue_each(call.queue, calls))
    else:
        name, digest = _noted(call.idempotency_key, body)
        jobs = await call.write(enqueue.enqueue_once(call.queue, calls, name, digest, IDEMPOTENT_MS))
        if len(jobs) < len(calls):
            raise Problem(410, "Gone", "the first request with this Idempotency-Key wrote jobs that were deleted since")
    return Enqueued(jobs=call.all_scrubbed(jobs))


def _bound(call: Call, new: EnqueueItem) -> Bound:
    options = {name: getattr(new, name) for name in ENQUEUE_OPTIONS if getattr(new, name, None) is not None}
    return enqueue.bind_by_name(call.queue, new.task, new.arguments, checked(options, ENQUEUE_OPTIONS))


def _noted(key: str, body: EnqueueBody) -> tuple[str, str]:
    """Return the name and the digest of a request. Without its key, no one can compare them with a guess."""
    content = msgspec.json.encode(body, order="deterministic")
    digest = hmac.new(key.encode(), content, hashlib.sha256).hexdigest()
    return f"request:{hashlib.sha256(key.encode()).hexdigest()}", digest
