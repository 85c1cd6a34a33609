"""Batches: all of them, and the counts of one."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request

from rowcall.domain.job import FINISHED
from rowcall.http.api.batches import BatchesQuery, get_batch
from rowcall.http.api.batches import list_batches as batch_page
from rowcall.http.endpoint import Call
from rowcall.http.pages.forms import query_of
from rowcall.overview.liveness import time_now


async def batch_list(call: Call, request: Request) -> dict[str, object]:
    page = await batch_page(call, query_of(request, BatchesQuery))
    return {
        "page": "batches",
        "batches": page.batches,
        "next_cursor": page.next_cursor,
        "now": await call.read(time_now(call.queue)),
    }


async def one_batch(call: Call, request: Request) -> dict[str, object]:
    batch = (await get_batch(call, int(request.path_params["id"]))).batch
    figures = [("waiting", batch.waiting), ("running", batch.running)]
    figures += [(str(status), getattr(batch, status)) for status in FINISHED]
    return {
        "page": "batches",
        "batch": batch,
        "figures": figures,
        "queries": {name: urlencode({"batch": batch.id, "status": name}) for name, _ in figures if name != "waiting"},
        "now": await call.read(time_now(call.queue)),
    }
