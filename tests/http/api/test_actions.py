from __future__ import annotations

import pytest

from rowcall import Rowcall
from tests.http.client import Client


def test_one_job_is_changed(client: Client, filled: Rowcall) -> None:
    assert client.post("/api/jobs/2/retry").json()["job"]["status"] == "pending"
    assert client.post("/api/jobs/2/priority", {"priority": 9}).json()["job"]["priority"] == 9
    assert client.post("/api/jobs/2/cancel", {"reason": "wrong"}).json()["job"]["status"] == "cancelled"
    assert client.post("/api/jobs/3/reschedule", {"delay": 0}).json()["job"]["status"] in ("scheduled", "pending")
    edited = client.post("/api/jobs/3", {"arguments": {"name": "Eve"}, "tags": ["x"]}, method="PATCH").json()["job"]
    assert (edited["payload"], edited["tags"]) == ({"name": "Eve"}, ["x"])
    assert client.post("/api/jobs/3/complete", {"result": "hello"}).json()["job"]["result"] == "hello"
    assert client.send("DELETE", "/api/jobs/3", b"").json() == {"id": 3}
    assert client.get("/api/jobs/3").status_code == 404
    assert {event.actor for event in filled.timeline(2) if event.event == "CANCELLED"} != {None}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/jobs/3/retry", {}, 409),
        ("/api/jobs/1/cancel", {}, 409),
        ("/api/jobs/99/retry", {}, 404),
        ("/api/jobs/3/priority", {}, 422),
        ("/api/jobs/3/priority", {"priority": 2**40}, 422),
        ("/api/jobs/3/reschedule", {}, 422),
        ("/api/jobs/3/reschedule", {"delay": 1, "run_at": "2030-01-01T00:00:00Z"}, 422),
        ("/api/jobs/1/complete", {}, 409),
        ("/api/jobs/3/complete", {"result": [1]}, 422),
        ("/api/jobs/retry", {}, 422),
        ("/api/jobs/cancel", {"filter": {"status": ["succeeded"]}}, 422),
        ("/api/jobs/priority", {"filter": {"queue": "mail"}}, 422),
        ("/api/jobs/delete", {"ids": list(range(1, 1002))}, 422),
    ],
)
def test_what_cannot_be_done(client: Client, filled: Rowcall, path: str, body: object, status: int) -> None:
    before = filled.list().jobs
    assert client.post(path, body).status_code == status
    assert filled.list().jobs == before


def test_all_that_match_are_counted_first_and_then_changed(client: Client, filled: Rowcall) -> None:
    for _ in range(3):
        filled.enqueue("broken", {})
    filled.drain()
    body = {"filter": {"error_code": "INTERNAL:*", "type": "broken"}}
    expected: dict[str, object] = {"count": 4, "exact": True, "dry_run": True, "counted_at": None, "refused": []}
    assert client.post("/api/jobs/retry", {**body, "dry_run": True}).json() == expected
    waiting = client.post("/api/jobs/cancel", {"filter": {"queue": "default"}, "dry_run": True}).json()
    assert (waiting["count"], waiting["counted_at"] is None) == (1, False)
    assert client.post("/api/jobs/retry", {**body, "limit": 1, "dry_run": True}).json()["count"] == 1
    assert filled.stats().by_status["failed"] == 4
    assert client.post("/api/jobs/retry", {**body, "limit": 3}).json()["count"] == 3
    queued = {"filter": {"queue": "mail", "status": ["pending"]}}
    assert client.post("/api/jobs/priority", {**queued, "priority": 4}).json()["count"] == 3
    assert client.post("/api/jobs/reschedule", {**queued, "delay": 60}).json()["count"] == 3
    waiting = {"filter": {"queue": "mail", "status": ["scheduled"]}}
    assert client.post("/api/jobs/cancel", {**waiting, "reason": "x"}).json()["count"] == 3
    assert client.post("/api/jobs/delete", {"filter": {"status": ["cancelled"]}}).json()["count"] == 3


def test_some_jobs_are_changed_by_their_ids(client: Client, filled: Rowcall) -> None:
    found = client.post("/api/jobs/retry", {"ids": [2, 3, 99, 2]}).json()
    assert found["count"] == 1
    assert [one["id"] for one in found["refused"]] == [3, 99]
    assert client.post("/api/jobs/delete", {"ids": [1, 2], "dry_run": True}).json()["count"] == 2
    assert filled.get(2).status == "pending"
