"""Queues: how deep they are, how fast they move, and whether they are paused."""

from __future__ import annotations

from starlette.requests import Request

from rowcall.domain.job import Paused
from rowcall.http.api.questions import WindowQuery
from rowcall.http.api.system import list_queues
from rowcall.http.endpoint import Call
from rowcall.operations import pauses
from rowcall.overview.liveness import time_now

WINDOW_SECONDS = 3600


async def queue_list(call: Call, request: Request) -> dict[str, object]:
    answer = await list_queues(call, WindowQuery(window=WINDOW_SECONDS))
    paused: list[Paused] = await call.read(pauses.paused(call.queue))
    return {
        "page": "queues",
        "queues": answer.queues,
        "every": answer.paused,
        "counted_at": answer.counted_at,
        "paused_tasks": [one for one in paused if one.kind == "task"],
        "now": await call.read(time_now(call.queue)),
    }
