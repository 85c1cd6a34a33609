"""Queues: how deep they are, how fast they move, why jobs wait, and whether they are paused."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlencode

from starlette.requests import Request

from rowcall.domain.job import Paused, serves
from rowcall.http.api.questions import WindowQuery
from rowcall.http.api.system import list_queues, list_workers
from rowcall.http.endpoint import Call
from rowcall.http.guard import base_path
from rowcall.http.pages.charts import activity_chart, times_chart
from rowcall.http.pages.periods import chosen_period, sparklines
from rowcall.http.problems import Problem
from rowcall.operations import pauses, stats
from rowcall.overview.liveness import time_now

WINDOW_SECONDS = 3600.0


async def queue_list(call: Call, request: Request) -> dict[str, object]:
    answer = await list_queues(call, WindowQuery(window=WINDOW_SECONDS))
    paused: list[Paused] = await call.read(pauses.paused(call.queue))
    return {
        "page": "queues",
        "queues": answer.queues,
        "every": answer.paused,
        "counted_at": answer.counted_at,
        "lines": await sparklines(call, WINDOW_SECONDS, lambda named, task: named),
        "paused_tasks": [one for one in paused if one.kind == "task"],
        "now": await call.read(time_now(call.queue)),
    }


async def one_queue(call: Call, request: Request) -> dict[str, object]:
    name, period = str(request.path_params["name"]), chosen_period(request)
    answer = await list_queues(call, WindowQuery(window=period.seconds))
    shown = next((one for one in answer.queues if one.name == name), None)
    if shown is None:
        raise Problem(404, "Not found", f"no job or pause has the queue {name!r}")
    activity = await call.read(stats.activity(call.queue, window=period.seconds, queue=name))
    lines = await sparklines(call, period.seconds, lambda named, task: task if named == name else None)
    tasks: dict[str, Counter[str]] = {task: Counter() for task in lines}
    for (status, named, task), jobs in (await call.counts.jobs.read(call.patience_seconds)).jobs.items():
        if named == name:
            tasks.setdefault(task, Counter())[status] += jobs
    workers = [one for one in (await list_workers(call)).workers if serves(one.worker.queues, name)]
    return {
        "page": "queues",
        "queue": shown,
        "jobs_query": f"{urlencode({'queue': name})}&",
        "every": answer.paused,
        "counted_at": answer.counted_at,
        "stats": await call.stats(period.seconds),
        "activity": activity,
        "chart": activity_chart(activity, f"{base_path(request.scope)}/jobs", queue=name),
        "runs": times_chart(activity, "run"),
        "waits": times_chart(activity, "wait"),
        "tasks": dict(sorted(tasks.items(), key=lambda item: (-item[1]["pending"], item[0]))),
        "lines": lines,
        "workers": workers,
        **period.shown(),
        "now": await call.read(time_now(call.queue)),
    }
