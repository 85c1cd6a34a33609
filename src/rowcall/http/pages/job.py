"""One job: its arguments and result, its timeline and attempts, and what it waits for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.requests import Request

from rowcall.actions import FROM_STEP, ON_ONE
from rowcall.domain.blobs import MARK
from rowcall.domain.job import Event, Job
from rowcall.domain.payload import RAW_KEY
from rowcall.domain.step import NAMELESS
from rowcall.http.api.jobs import MOST_ROWS, JobDetail, get_job
from rowcall.http.endpoint import Call
from rowcall.http.guard import base_path
from rowcall.http.pages.graph import MOST_IN_GROUP, flow_graph
from rowcall.http.pages.render import LONGEST_SHOWN, pretty_json
from rowcall.http.pages.waiting import asked
from rowcall.http.problems import Problem
from rowcall.operations import flows, inspect
from rowcall.operations.streams import last_values
from rowcall.overview.family import family, tasks_of
from rowcall.overview.liveness import time_now
from rowcall.overview.scrub import scrubbed_value
from rowcall.overview.stacks import stack
from rowcall.overview.waterfall import waterfall

STACK_SECONDS = 3.0
MOST_VALUES, MOST_BYTES = 2_000, 64 * 1024
"""Of streams. The rest of a longer one is in the API."""


async def one_job(call: Call, request: Request) -> dict[str, object]:
    job_id = int(request.path_params["id"])
    detail = await get_job(call, job_id)
    job = detail.job
    row = await call.read(inspect.get_row(call.queue, job_id))
    chain = None
    if job.chain_id is not None:
        chain = await call.read(flows.get_chain(call.queue, job.chain_id))
    now = await call.read(time_now(call.queue))
    tasks = await call.read(tasks_of(call.queue, [one.id for one in detail.blockers[:MOST_IN_GROUP]]))
    return {
        "page": "jobs",
        "job": job,
        "can": {path for path, action in ON_ONE.items() if job.status in action.statuses},
        "why": detail.why,
        "asked": asked(detail.waits),
        "attempts": detail.attempts,
        "steps": detail.steps,
        "restarts": restarts_of(detail),
        "log": detail.log,
        "values": await streams_of(call, row),
        "shortened": detail.shortened,
        "bars": waterfall(job, detail.attempts, detail.steps, now),
        "most_rows": MOST_ROWS,
        "family": await call.read(family(call.queue, job_id)),
        "graph": flow_graph(job, chain, detail.blockers, detail.dependents, base_path(request.scope), tasks),
        "timeline": without_claims(detail.timeline),
        "chain": chain,
        "trace_id": detail.trace_id,
        "is_whole": row.payload == job.payload and is_whole(job.payload),
        "as_python": as_python(job),
        "as_sql": as_sql(job, call.queue.config.table_prefix),
        "now": now,
    }


async def streams_of(call: Call, job: Job) -> list[dict[str, object]]:
    """Return the end of each stream: as one text if all values are texts, such as tokens; else one value in a line."""
    ends = await call.read(last_values(call.queue, job, MOST_VALUES, MOST_BYTES))
    shown: list[dict[str, object]] = []
    for end in ends:
        values = [scrubbed_value(call.queue.declared.failures, value) for value in end.values]
        if is_text := all(isinstance(value, str) for value in values):
            text = "".join(map(str, values))
        else:
            text = "\n".join(map(_json, values))
        shown.append({"name": end.name, "part": end.part, "position": end.position, "text": text, "is_text": is_text})
    return shown


def restarts_of(detail: JobDetail) -> list[str]:
    """Return the names of the steps from which the job may run again."""
    may = detail.job.status in FROM_STEP.statuses
    return list(dict.fromkeys(step.name for step in detail.steps if step.kind not in NAMELESS)) if may else []


async def job_stack(call: Call, request: Request) -> dict[str, object]:
    """Ask the worker of a running job where its handler is, for visitors who may write: the question is a row."""
    if not call.access.may_operate:
        raise Problem(403, "Forbidden", f"{call.actor} may read, but not ask a worker for a stack")
    found = await call.write(stack(call.queue, int(request.path_params["id"]), timeout=STACK_SECONDS))
    return {"page": "jobs", "stack": found, "now": await call.read(time_now(call.queue))}


def is_whole(payload: dict[str, object]) -> bool:
    """Return whether these are the arguments themselves, and short enough for a form."""
    is_plain = not any(name.startswith(MARK) or name == RAW_KEY for name in payload)
    return is_plain and len(pretty_json(payload)) <= LONGEST_SHOWN


def without_claims(timeline: Sequence[Event]) -> list[Event]:
    """Return the events; a claim that is followed by its start says nothing more."""
    following = [*timeline[1:], None]
    return [
        one
        for one, after in zip(timeline, following, strict=True)
        if not (one.event == "CLAIMED" and after is not None and after.event == "STARTED")
    ]


def as_python(job: Job) -> str:
    """Return a call that enqueues the same job again."""
    options = {"queue": job.queue, "priority": job.priority or None, "tags": list(job.tags) or None}
    given = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
    return f"jobs.enqueue({job.type!r}, {job.payload!r}{given})"


def as_sql(job: Job, table_prefix: str) -> str:
    """Return a statement that enqueues the same job again."""
    columns = {"type": _quoted(job.type), "queue": _quoted(job.queue), "payload": _quoted(_json(job.payload))}
    columns["priority"] = str(job.priority)
    if job.tags:
        columns["tags"] = _quoted(_json(job.tags))
    return f"INSERT INTO {table_prefix}job ({', '.join(columns)}) VALUES ({', '.join(columns.values())});"


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _quoted(text: str) -> str:
    return f"'{text.replace(chr(39), chr(39) * 2)}'"
