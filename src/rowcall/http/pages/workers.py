"""Workers: where they run, what they serve, and their last heartbeat."""

from __future__ import annotations

from starlette.requests import Request

from rowcall.http.api.questions import LimitQuery, get_stuck
from rowcall.http.api.system import list_workers
from rowcall.http.endpoint import Call
from rowcall.operations.stats import failed_jobs
from rowcall.overview.liveness import time_now

MOST_RUNNING = 100


async def worker_list(call: Call, request: Request) -> dict[str, object]:
    running = (await get_stuck(call, LimitQuery(limit=MOST_RUNNING))).jobs
    return {
        "page": "workers",
        "failed": await call.read(failed_jobs(call.queue)),
        "workers": (await list_workers(call)).workers,
        "running": running,
        "now": await call.read(time_now(call.queue)),
    }
