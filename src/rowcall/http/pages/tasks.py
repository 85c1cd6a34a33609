"""Tasks: how many jobs of each there are, how fast they run, what fails, and whether they are paused."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request

from rowcall.domain.job import Pace
from rowcall.http.api.questions import WindowQuery
from rowcall.http.api.system import list_tasks
from rowcall.http.endpoint import Call
from rowcall.http.guard import base_path
from rowcall.http.pages.charts import activity_chart, times_chart
from rowcall.http.pages.periods import chosen_period, sparklines
from rowcall.http.problems import Problem
from rowcall.operations import stats
from rowcall.overview.liveness import time_now
from rowcall.overview.tasks import tasks_of

MOST_ERRORS = 6


async def task_list(call: Call, request: Request) -> dict[str, object]:
    period = chosen_period(request)
    answer = await list_tasks(call, WindowQuery(window=period.seconds))
    return {
        "page": "tasks",
        "tasks": answer.tasks,
        "counted_at": answer.counted_at,
        "lines": await sparklines(call, period.seconds, lambda named, task: task),
        **period.shown(),
        "now": await call.read(time_now(call.queue)),
    }


async def one_task(call: Call, request: Request) -> dict[str, object]:
    name, period = str(request.path_params["name"]), chosen_period(request)
    totals = await call.stats(period.seconds)
    declared = next((one for one in tasks_of(call.queue, {}) if name in (one.name, *one.aliases)), None)
    paused = next((one for one in totals.paused if (one.kind, one.name) == ("task", name)), None)
    if declared is None and paused is None and name not in totals.by_type and name not in totals.pace_by_type:
        raise Problem(404, "Not found", f"no task, job or pause has the name {name!r}")
    activity = await call.read(stats.activity(call.queue, window=period.seconds, type=name))
    failing = await call.read(stats.failing(call.queue, window=period.seconds, type=name, limit=MOST_ERRORS))
    return {
        "page": "tasks",
        "name": name,
        "jobs_query": f"{urlencode({'type': name})}&",
        "declared": declared,
        "paused": paused,
        "stats": totals,
        "by_status": totals.by_type.get(name, dict.fromkeys(totals.by_status, 0)),
        "pace": totals.pace_by_type.get(name, Pace()),
        "activity": activity,
        "chart": activity_chart(activity, f"{base_path(request.scope)}/jobs", type=name),
        "runs": times_chart(activity, "run"),
        "waits": times_chart(activity, "wait"),
        "failing": call.all_scrubbed(failing),
        **period.shown(),
        "now": await call.read(time_now(call.queue)),
    }
