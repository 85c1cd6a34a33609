"""Errors: failed jobs by code, over time, and what fails now."""

from __future__ import annotations

from starlette.requests import Request

from rowcall.http.api.questions import ErrorsQuery, get_errors
from rowcall.http.endpoint import Call, converted
from rowcall.http.pages.charts import sparkline
from rowcall.http.pages.periods import WINDOWS
from rowcall.operations.stats import activity
from rowcall.overview.liveness import time_now

WINDOW_SECONDS = 86_400.0


async def error_list(call: Call, request: Request) -> dict[str, object]:
    query = converted([("window", str(WINDOW_SECONDS)), *request.query_params.multi_items()], ErrorsQuery)
    answer = await get_errors(call, query)
    past = await call.read(activity(call.queue, window=query.window))
    return {
        "page": "errors",
        "errors": answer.errors,
        "failing": answer.failing,
        "lines": {code: sparkline(counts) for code, counts in past.errors.items()},
        "given": query,
        "windows": WINDOWS,
        "now": await call.read(time_now(call.queue)),
    }
