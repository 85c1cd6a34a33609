"""The first page: how much, how fast, what fails."""

from __future__ import annotations

from starlette.requests import Request

from rowcall.http.endpoint import Call, EndpointInput, converted
from rowcall.http.pages.charts import WINDOWS, activity_chart
from rowcall.operations import inspect, stats
from rowcall.overview.counts import by_activity
from rowcall.overview.health_text import health_text, verdict
from rowcall.overview.liveness import Liveness, liveness_of, time_now

MOST_ERRORS, MOST_TASKS = 6, 8


class OverviewQuery(EndpointInput, frozen=True, kw_only=True):
    window: str = "1h"


async def overview(call: Call, request: Request) -> dict[str, object]:
    asked = converted(request.query_params.multi_items(), OverviewQuery).window
    window = asked if asked in WINDOWS else "1h"
    seconds = WINDOWS[window]
    queue = call.queue
    totals = await call.stats(seconds)
    activity = await call.read(stats.activity(queue, window=seconds))
    now = await call.read(time_now(queue))
    workers = await call.read(inspect.workers(queue))
    alive = [worker for worker in workers if liveness_of(worker, now) == Liveness.ALIVE]
    findings = await call.attention()
    failing = call.all_scrubbed(await call.read(stats.failing(queue, window=seconds, limit=MOST_ERRORS)))
    return {
        "page": "overview",
        "stats": totals,
        "window": window,
        "windows": list(WINDOWS),
        "chart": activity_chart(activity),
        "activity": activity,
        "failing": failing,
        "types": by_activity(totals.pace_by_type)[:MOST_TASKS],
        "workers": workers,
        "alive": alive,
        "slots": sum(worker.concurrency for worker in alive),
        "busy": sum(worker.running for worker in alive),
        "now": now,
        "attention": findings,
        "verdict": verdict(findings),
        "health": health_text(findings, totals, alive),
    }
