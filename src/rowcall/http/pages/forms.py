"""Forms: their fields as the body of an endpoint, and what to say when it is done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from rowcall.actions import ON_ALL
from rowcall.domain.job import Job, Paused, Pruned, what_is_paused
from rowcall.domain.value import Value
from rowcall.http.api.batches import BatchChanged
from rowcall.http.api.filters import object_of
from rowcall.http.api.job_changes import ChangedJobs, Deleted, JobAnswer
from rowcall.http.api.limits import LimitAnswer, LimitReset
from rowcall.http.api.signals import Signalled
from rowcall.http.api.system import Resumed, ScheduleAnswer, ScheduledJob
from rowcall.http.endpoint import Q, converted
from rowcall.http.problems import Problem
from rowcall.overview.formats import counted
from rowcall.overview.limits import allowed_text

MOST_FIELDS = 2000
_NOT_FIELDS = ("csrf", "return_to")
_TIMES = ("_after", "_before")
_LISTS = ("ids", "filter.status")


async def form_pairs(request: Request) -> list[tuple[str, str]]:
    """Return the names and values of a form."""
    try:
        text = (await request.body()).decode()
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise Problem(400, "Bad request", "the form cannot be read") from None


def body_of(pairs: Sequence[tuple[str, str]]) -> dict[str, object]:
    """Return the fields. `filter.queue` is `queue` of `filter`, `json.result` is `result` as JSON.

    >>> body_of([("csrf", "x"), ("ids", "1"), ("ids", "2"), ("filter.queue", "mail"), ("json.result", "[1]")])
    {'ids': ['1', '2'], 'filter': {'queue': 'mail'}, 'result': [1]}
    """
    body: dict[str, object] = {}
    for name, value in pairs:
        if name in _NOT_FIELDS or not value:
            continue
        holder = body
        part = name
        if name.startswith("filter."):
            holder = body.setdefault("filter", {})  # type: ignore[assignment]
            part = name.removeprefix("filter.")
        if name in _LISTS:
            holder.setdefault(part, [])
            holder[part].append(value)  # type: ignore[attr-defined]
        elif name.startswith("json."):
            body[name.removeprefix("json.")] = _json(name.removeprefix("json."), value)
        elif part.endswith(_TIMES):
            holder[part] = time_text(part, value)
        else:
            holder[part] = object_of(value) if name == "filter.payload" else value
    return body


def time_text(name: str, text: str) -> str:
    """Return a time that someone typed, or a browser sent. The pages say that times are in UTC.

    >>> time_text("created_after", "2026-01-02T09:00")
    '2026-01-02T09:00:00+00:00'
    """
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        raise Problem(422, "Invalid value", f"{name} must be a time such as 2026-01-02T09:00, got {text!r}") from None


def query_of(request: Request, kind: type[Q]) -> Q:
    """Return the query of a page. Its times may be as a browser sends them."""
    return converted(
        [
            (name, time_text(name, value) if value and name.endswith(_TIMES) else value)
            for name, value in request.query_params.multi_items()
        ],
        kind,
    )


def _json(name: str, text: str) -> object:
    try:
        decoded: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise Problem(422, "Invalid value", f"{name} must be JSON") from None
    return decoded


def done_text(path: str, answer: Value) -> str:
    """Return what to say after the form of a path."""
    action = path.rpartition("/")[2]
    match answer:
        case ChangedJobs():
            left = [f"; {counted(len(answer.refused), 'job')} refused it: {one.error}" for one in answer.refused[:1]]
            return f"{counted(answer.count, 'job')} {ON_ALL[action].done}{''.join(left)}"
        case JobAnswer(job=job):
            return f"Job {job.id} is {job.status}" if action != "edit" else f"Job {job.id} was changed"
        case Signalled(job=job):
            return f"Sent {answer.name} to job {job.id}"
        case Deleted():
            return f"Job {answer.id} was deleted"
        case Paused():
            return f"Paused {what_is_paused(answer.kind, answer.name)}"
        case Resumed():
            return "Resumed" if answer.was_paused else "It was not paused"
        case ScheduledJob(job=Job(id=job_id)):
            return f"Enqueued job {job_id}"
        case ScheduleAnswer(schedule=schedule):
            return f"Schedule {schedule.name} is {'paused' if schedule.paused else 'active'}"
        case BatchChanged(batch=batch):
            changed = f"{counted(answer.changed, 'job')} {ON_ALL[action].done}" if action in ON_ALL else "Sealed"
            return f"Batch {batch.id}: {changed}"
        case LimitAnswer(limit=limit):
            return f"Limit {limit.name}: {allowed_text(limit)}"
        case LimitReset():
            return f"Limit {answer.name} has its declared numbers again" if answer.was_set else "It was not set"
        case Pruned():
            return f"Deleted {counted(answer.jobs, 'job')}"
    return "Done"
