"""Retention and storage: what is kept, for how long, and what the next prune deletes."""

from __future__ import annotations

from starlette.requests import Request

from rowcall.http.api.questions import get_retention
from rowcall.http.endpoint import Call
from rowcall.overview.formats import at_least
from rowcall.overview.liveness import time_now


async def storage(call: Call, request: Request) -> dict[str, object]:
    report = await get_retention(call)
    return {
        "page": "storage",
        "report": report,
        "prunable": at_least(report.prunable, report.more_prunable),
        "kept": sorted(report.kept, key=lambda one: -one.jobs),
        "database": call.queue.database.name,
        "now": await call.read(time_now(call.queue)),
    }
