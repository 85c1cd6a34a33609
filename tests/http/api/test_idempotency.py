"""The header Idempotency-Key: one answer for each key, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rowcall import Rowcall
from rowcall.testing import FakeClock
from tests.http.client import SITE, Client, client_of
from tests.http.conftest import declared

ONE = {"task": "greet", "arguments": {"name": "Ann"}}
OTHERS: list[dict[str, object]] = [
    {"task": "broken", "arguments": {"reason": "x"}},
    {"task": "greet", "arguments": {"name": "Bob"}},
    {"task": "greet", "arguments": {"name": "x" * 100_000}},
    {**ONE, "priority": 7},
    {"jobs": [ONE]},
    {"jobs": [ONE, ONE]},
]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'app.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    assert isinstance(found, str)
    return found


@pytest.fixture
def jobs(url: str) -> Iterator[Rowcall]:
    with declared(url) as found:
        yield found


@pytest.fixture
def client(jobs: Rowcall) -> Iterator[Client]:
    with client_of(jobs) as found:
        yield found


def post(client: Client, body: object = ONE, key: str = "order-7") -> httpx.Response:
    return client.post("/api/jobs", body, idempotency_key=key)


def ids(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 201, answer.text
    return [job["id"] for job in answer.json()["jobs"]]


def test_another_request_with_the_key_is_refused_and_writes_nothing(client: Client, jobs: Rowcall) -> None:
    first = ids(post(client))
    for other in OTHERS:
        answer = post(client, other)
        assert answer.status_code == 422
        assert "Idempotency-Key was used with another request" in answer.json()["detail"]
        assert jobs.stats().total == 1
    assert ids(post(client)) == first
    assert ids(post(client, {"arguments": {"name": "Ann"}, "task": "greet"})) == first
    assert ids(post(client, OTHERS[0], "order-8")) != first


def test_a_refused_request_does_not_use_up_its_key(client: Client, jobs: Rowcall) -> None:
    assert post(client, {**ONE, "after": [99]}).status_code == 422
    assert post(client, {"task": "greet"}).status_code == 422
    assert len(ids(post(client))) == 1
    assert jobs.stats().total == 1


def test_jobs_may_have_keys_of_their_own(client: Client, jobs: Rowcall) -> None:
    keyed = {**ONE, "key": "ann"}
    first = ids(post(client, keyed))
    assert ids(post(client, keyed)) == ids(post(client, keyed, "order-8")) == first
    assert jobs.stats().total == 1


def test_jobs_that_were_deleted_are_not_written_again(client: Client, jobs: Rowcall) -> None:
    two = {"jobs": [ONE, ONE]}
    jobs.delete(ids(post(client, two))[0])
    assert post(client, two).status_code == 410
    assert jobs.stats().total == 1


def test_one_answer_for_many_requests_at_once(jobs: Rowcall) -> None:
    app = jobs.asgi()
    bodies = [{"jobs": [ONE, ONE, ONE]}, {"task": "broken", "arguments": {}}]

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=SITE) as client:
            headers = {"idempotency-key": "order-7"}
            asked = (client.post("/api/jobs", json=bodies[number % 2], headers=headers) for number in range(100))
            return await asyncio.gather(*asked)

    answers = asyncio.run(ask())
    written = sorted(job.id for job in jobs.list().jobs)
    assert [answer.status_code for answer in answers].count(201) == 50
    assert [answer.status_code for answer in answers].count(422) == 50
    assert all(ids(answer) == written for answer in answers if answer.status_code == 201)


def test_a_key_may_be_used_again_after_a_day(url: str) -> None:
    clock = FakeClock()
    with Rowcall(url, clock=clock) as jobs, client_of(jobs) as client:
        first = ids(post(client))
        clock.advance(24 * 3600 - 1)
        assert ids(post(client)) == first
        clock.advance(2)
        second = ids(post(client, OTHERS[0]))
        assert second != first
        assert ids(post(client, OTHERS[0])) == second
