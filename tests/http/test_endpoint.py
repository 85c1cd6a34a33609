from __future__ import annotations

import asyncio

import msgspec
import pytest

from rowcall import Access, Rowcall, Value
from rowcall.app import queue_of
from rowcall.http.endpoint import Call, Endpoint, EndpointInput, converted
from rowcall.http.problems import Problem
from rowcall.http.shared_counts import SharedCounts


class Filter(EndpointInput, frozen=True, kw_only=True):
    status: list[str] | None = None
    limit: int = 5


class Said(Value, frozen=True):
    text: str


async def say(call: Call, id: int, query: Filter) -> Said:
    """Say it."""
    return Said(f"{call.actor} {id} {query.status} {query.limit}")


def test_fields_may_repeat_and_become_numbers() -> None:
    assert converted([("status", "failed"), ("status", "running"), ("limit", "7")], Filter) == Filter(
        status=["failed", "running"], limit=7
    )
    assert converted([("limit", "")], Filter) == Filter()
    for wrong in ([("limit", "x")], [("unknown", "1")]):
        with pytest.raises(msgspec.ValidationError):
            converted(wrong, Filter)


def test_an_endpoint_is_described_by_its_function(jobs: Rowcall) -> None:
    endpoint = Endpoint("GET", "/say/{id:path}", say)
    assert endpoint.template == "/say/{id}"
    assert (endpoint.summary, endpoint.answer, endpoint.query) == ("Say it.", Said, Filter)
    call = Call(queue_of(jobs), Access("ann"), SharedCounts(queue_of(jobs)))
    assert asyncio.run(endpoint.run(call, {"id": "3"}, [("limit", "2")])) == Said("ann 3 None 2")


def test_only_operators_may_change_something(jobs: Rowcall) -> None:
    endpoint = Endpoint("POST", "/say/{id}", say)
    with pytest.raises(Problem, match="ann may read"):
        asyncio.run(endpoint.run(Call(queue_of(jobs), Access("ann"), SharedCounts(queue_of(jobs))), {"id": "3"}))
