from __future__ import annotations

import pytest

from rowcall import Rowcall
from tests.http.client import Client, client_of


def test_jobs_are_listed_by_filters_and_pages(client: Client) -> None:
    found = client.get("/api/jobs?status=failed&status=succeeded&limit=1").json()
    assert [job["id"] for job in found["jobs"]] == [2]
    rest = client.get(f"/api/jobs?status=failed&status=succeeded&limit=1&cursor={found['next_cursor']}").json()
    assert [job["id"] for job in rest["jobs"]] == [1]
    assert "lease" not in rest["jobs"][0]
    for query in ('payload={"name":"Bob"}', "tag=vip&order=oldest", "type=greet&key=bob", "queue=mail"):
        assert len(client.get(f"/api/jobs?{query}").json()["jobs"]) == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("status=lost", 422),
        ("limit=0", 422),
        ("limit=100000", 422),
        ("limit=x", 422),
        ("cursor=x", 422),
        ("payload=[1]", 422),
        ("created_after=2026-01-01", 422),
        ("created_after=2026-01-01T00:00:00", 422),
        ("chain=-1", 404),
        ("key=bob", 422),
        ("colour=red", 422),
        ("queue=%00", 422),
    ],
)
def test_wrong_filters(client: Client, query: str, status: int) -> None:
    answer = client.get(f"/api/jobs?{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]


def test_one_job_comes_with_its_history(client: Client) -> None:
    found = client.get("/api/jobs/2").json()
    assert found["job"]["error_code"] == "INTERNAL:ValueError"
    assert found["attempts"][0]["traceback"]
    assert [event["event"] for event in found["timeline"]][-1] == "FAILED"
    assert found["why"]["reason"] == "finished"
    for wrong, status in (("99", 404), ("0", 404), ("x", 422), (str(10**23), 404)):
        assert client.get(f"/api/jobs/{wrong}").status_code == status


def test_jobs_are_enqueued_one_or_many(client: Client, filled: Rowcall) -> None:
    one = client.post("/api/jobs", {"task": "greet", "arguments": {"name": "Cid"}, "priority": 3, "tags": ["a"]})
    assert one.status_code == 201
    (job,) = one.json()["jobs"]
    assert filled.get(job["id"]).priority == 3
    body = {"jobs": [{"task": "greet", "arguments": {"name": "Dan"}}, {"task": "other", "arguments": {"a": 1}}]}
    assert [job["type"] for job in client.post("/api/jobs", body).json()["jobs"]] == ["greet", "other"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"jobs": []},
        {"task": "greet"},
        {"task": "greet", "arguments": {"name": 3}},
        {"task": "greet", "arguments": [], "x": 1},
        {"task": "greet", "arguments": {"name": "a"}, "priority": "high"},
        {"task": "greet", "arguments": {"name": "a"}, "delay": -1},
        {"jobs": [{"task": "greet", "arguments": {"name": "a"}}, {"task": "greet"}]},
        [],
        "text",
    ],
)
def test_a_wrong_enqueue_writes_nothing(client: Client, filled: Rowcall, body: object) -> None:
    assert client.post("/api/jobs", body).status_code == 422
    assert filled.stats().total == 3


def test_an_error_says_which_of_several_jobs(client: Client, filled: Rowcall) -> None:
    good = {"task": "mail", "arguments": {}}
    answer = client.post("/api/jobs", {"jobs": [good, {"task": "mail", "priority": 2**40}]})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("row 1: priority must be")
    assert client.post("/api/jobs", {"task": "mail", "priority": 2**40}).json()["detail"].startswith("priority ")


def test_a_repeated_request_enqueues_once(client: Client, filled: Rowcall) -> None:
    body = {"jobs": [{"task": "greet", "arguments": {"name": name}} for name in ("Cid", "Dan")]}
    first = client.post("/api/jobs", body, idempotency_key="order-7").json()["jobs"]
    again = client.post("/api/jobs", body, idempotency_key="order-7").json()["jobs"]
    assert [job["id"] for job in first] == [job["id"] for job in again]
    assert [job["duplicate"] for job in again] == [True, True]
    assert client.post("/api/jobs", body, idempotency_key="x" * 300).status_code == 400
    assert filled.stats().total == 5


def test_secrets_are_scrubbed(tmp_path: object) -> None:
    with Rowcall("sqlite:///:memory:", scrub=lambda text: text.replace("hunter2", "***")) as jobs:
        jobs.enqueue("log_in", {"password": "hunter2"})
        with client_of(jobs) as client:
            for path in ("/api/jobs", "/api/jobs/1", "/jobs", "/jobs/1"):
                assert "hunter2" not in client.get(path).text
                assert "***" in client.get(path).text
