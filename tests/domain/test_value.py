"""Values: dicts and JSON of them, hashes, and what FastAPI makes of them."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Annotated

import httpx
import msgspec
import pytest
from fastapi import Body, FastAPI
from pydantic import BaseModel

from rowcall import Backoff, Chain, InProgress, Job, Limit, Page, Retention, Retries, Schedule, Stats, Status, Summary
from rowcall.domain.value import Value

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
JOB = Job(
    id=7,
    type="send_email",
    queue="mail",
    payload={"to": "a@example.com", "copies": [1, 2]},
    status=Status.RUNNING,
    run_at=NOW,
    created_at=NOW,
    progress=0.5,
    progress_message="half way",
    tags=("a",),
)
AS_JSON = {
    "id": 7,
    "status": "running",
    "payload": {"to": "a@example.com", "copies": [1, 2]},
    "run_at": "2030-01-01T12:00:00Z",
    "finished_at": None,
    "progress_message": "half way",
    "tags": ["a"],
}
VALUES: list[Value] = [
    JOB,
    Page(jobs=[JOB]),
    Chain(id=1, type="a", queue="b", status=Status.FAILED, length=1, current=1, created_at=NOW, steps=(JOB,)),
    Schedule(name="a", task="b", arguments={"c": 1}, every=timedelta(minutes=5)),
    Retries(by_attempts={1: 2}, by_type={"a": {1: 2}}),
    Stats(total=1, by_status={"failed": 1}, by_queue={"a": {"failed": 1}}),
    Summary(succeeded=1),
    Retention(queues={"mail": Retention(failed=None)}),
    Backoff.linear(5),
    Limit("api", rate=5, per=timedelta(minutes=1)),
]


def shown_fields(kind: type[Value]) -> list[str]:
    return [name for name in kind.__struct_fields__ if name not in kind._hidden]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_a_dict_a_json_text_and_hashable(value: Value) -> None:
    assert json.loads(value.to_json()) == json.loads(json.dumps(value.to_dict())) == dict(value)
    assert list(value.to_dict()) == shown_fields(type(value))
    again = type(value)(**{name: getattr(value, name) for name in value.__struct_fields__})
    assert {value: "found"}[again] == "found"


def test_only_fields_are_found_by_name() -> None:
    assert JOB["id"] == 7
    with pytest.raises(KeyError, match="to_dict"):
        JOB["to_dict"]


def test_every_value_of_the_package_has_a_dict() -> None:
    assert {Job, InProgress} <= _below(Value)
    assert all(kind.__struct_config__.frozen for kind in _below(Value))


def _below(kind: type[Value]) -> set[type[Value]]:
    return {below for child in kind.__subclasses__() for below in (child, *_below(child))}


class Answer(BaseModel):
    job: Job


app = FastAPI()


@app.get("/annotated")
def annotated() -> Job:
    return JOB


@app.get("/typed")
def typed() -> Job[int]:
    return JOB


@app.get("/bare")
def bare():  # type: ignore[no-untyped-def]
    return JOB


@app.get("/list")
def some() -> list[Job]:
    return [JOB]


@app.get("/page")
def page() -> Page:
    return Page(jobs=[JOB])


@app.get("/nested")
def nested() -> Answer:
    return Answer(job=JOB)


def answer(app: FastAPI, path: str, body: object = None) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return await (client.get(path) if body is None else client.post(path, json=body))

    return asyncio.run(ask())


@pytest.mark.parametrize("path", ["annotated", "typed", "bare", "list", "page", "nested"])
def test_fastapi_returns_a_job(path: str) -> None:
    found = answer(app, f"/{path}").json()
    job = {"list": lambda: found[0], "page": lambda: found["jobs"][0], "nested": lambda: found["job"]}.get(path)
    shown = found if job is None else job()
    assert {name: shown[name] for name in AS_JSON} == AS_JSON
    assert shown == JOB.to_dict()


def test_the_schema_of_an_endpoint_names_the_fields() -> None:
    schema = app.openapi()["paths"]["/annotated"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["properties"]["created_at"] == {"format": "date-time", "title": "Created At", "type": "string"}
    assert set(schema["properties"]) == set(shown_fields(Job))


def test_the_lease_of_a_job_is_not_shown() -> None:
    claimed = msgspec.structs.replace(JOB, lease=12345)
    page = Page(jobs=[claimed])
    for shown in (repr(claimed), claimed.to_json(), page.to_json(), repr(page), str(dict(claimed))):
        assert "send_email" in shown
        assert "lease" not in shown
        assert "12345" not in shown


def test_a_job_is_shown_in_one_short_line() -> None:
    assert repr(JOB) == "Job(id=7, type='send_email', status='running', queue='mail')"
    tried = msgspec.structs.replace(JOB, attempt=2, error_code="A:B")
    assert repr(tried) == "Job(id=7, type='send_email', status='running', queue='mail', attempt=2, error_code='A:B')"


def test_fastapi_reads_a_job() -> None:
    def echo(job: Annotated[Job, Body()]) -> Job:
        return job

    def limits(limit: Annotated[Limit, Body()]) -> str | None:
        return limit.by

    def unmarked(job: Job) -> None: ...

    one = FastAPI()
    one.add_api_route("/job", echo, methods=["POST"])
    one.add_api_route("/limit", limits, methods=["POST"])
    one.add_api_route("/unmarked", unmarked)
    assert answer(one, "/openapi.json").status_code == 200
    read = answer(one, "/job", JOB.to_dict())
    assert (read.status_code, read.json()) == (200, JOB.to_dict())
    assert answer(one, "/job", {"id": "x"}).status_code == 422
    assert answer(one, "/limit", {"name": "api", "concurrency": 3, "by": "user"}).json() == "user"
    assert answer(one, "/limit", {"name": "api"}).status_code == 422  # it limits nothing


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_fastapi_returns_every_value(value: Value) -> None:
    one = FastAPI()
    one.add_api_route("/annotated", lambda: value, response_model=type(value))
    one.add_api_route("/bare", lambda: value, response_model=None)
    assert answer(one, "/bare").json() == value.to_dict()
    assert set(answer(one, "/annotated").json()) == set(shown_fields(type(value)))
    assert answer(one, "/openapi.json").status_code == 200
