"""Workers: where they run, what they serve, and their last heartbeat."""

from __future__ import annotations

from starlette.requests import Request

from rowcall.http.api.questions import LimitQuery, get_stuck
from rowcall.http.api.system import list_workers
from rowcall.http.endpoint import Call
from rowcall.overview.liveness import time_now

MOST_RUNNING = 100


async def worker_list(call: Call, request: Request) -> dict[str, object]:
    running = (await get_stuck(call, LimitQuery(limit=MOST_RUNNING))).jobs
    return {
        "page": "workers",
        "workers": (await list_workers(call)).workers,
        "running": running,
        "now": await call.read(time_now(call.queue)),
    }
