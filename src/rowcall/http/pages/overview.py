"""The first page: how much, how fast, what fails."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from rowcall.domain.attention import Finding
from rowcall.domain.job import Paused, Stats
from rowcall.http.endpoint import Call
from rowcall.http.guard import base_path
from rowcall.http.pages.charts import activity_chart
from rowcall.http.pages.periods import chosen_period
from rowcall.operations import inspect, stats
from rowcall.overview.counts import by_activity
from rowcall.overview.health_text import health_text, verdict
from rowcall.overview.liveness import Liveness, liveness_of, time_now

MOST_ERRORS, MOST_TASKS = 6, 8


async def overview(call: Call, request: Request) -> dict[str, object]:
    period, queue = chosen_period(request), call.queue
    totals = await call.stats(period.seconds)
    activity = await call.read(stats.activity(queue, window=period.seconds))
    now = await call.read(time_now(queue))
    workers = await call.read(inspect.workers(queue))
    alive = [worker for worker in workers if liveness_of(worker, now) == Liveness.ALIVE]
    findings = await call.attention()
    failing = call.all_scrubbed(await call.read(stats.failing(queue, window=period.seconds, limit=MOST_ERRORS)))
    return {
        "page": "overview",
        "stats": totals,
        **period.shown(),
        "chart": activity_chart(activity, f"{base_path(request.scope)}/jobs"),
        "activity": activity,
        "failing": failing,
        "types": by_activity(totals.pace_by_type)[:MOST_TASKS],
        "workers": workers,
        "alive": alive,
        "slots": sum(worker.concurrency for worker in alive),
        "busy": sum(worker.running for worker in alive),
        "now": now,
        "attention": findings,
        "paused": _other_pauses(totals, findings),
        "verdict": verdict(findings),
        "health": health_text(findings, totals, alive),
    }


def _other_pauses(totals: Stats, findings: Sequence[Finding]) -> list[Paused]:
    """Return the pauses that no finding names."""
    named = [one.evidence for one in findings if one.code == "paused"]
    return [pause for pause in totals.paused if all(evidence.get(pause.kind) != pause.name for evidence in named)]
