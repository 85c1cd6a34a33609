"""Limits: what they allow and use, which jobs wait for them, and forms that change their numbers."""

from __future__ import annotations

from starlette.requests import Request

from rowcall.http.api.limits import list_limits
from rowcall.http.endpoint import Call
from rowcall.overview.limits import allowed_text, declared_text, hold_text, used_text
from rowcall.overview.liveness import time_now

MOST_CHANGES = 10


async def limit_list(call: Call, request: Request) -> dict[str, object]:
    answer = await list_limits(call)
    return {
        "page": "limits",
        "limits": answer.limits,
        "changes": answer.changes[:MOST_CHANGES],
        "allowed": {one.name: allowed_text(one) for one in answer.limits},
        "declared": {one.name: declared_text(one) for one in answer.limits},
        "used": {one.name: used_text(one) for one in answer.limits},
        "holds": {one.name: hold_text(one) for one in answer.limits},
        "now": await call.read(time_now(call.queue)),
    }
