from __future__ import annotations

from unittest.mock import ANY

from rowcall import Limit, Rowcall
from rowcall.app import queue_of
from rowcall.declare.option_table import Options
from rowcall.operations.enqueue import bind_by_name
from tests.http.client import Client


def test_queues_are_paused_and_resumed(client: Client, filled: Rowcall) -> None:
    assert client.post("/api/queues/mail/pause").json()["name"] == "mail"
    found = client.get("/api/queues").json()
    assert [(one["name"], one["paused"] is not None) for one in found["queues"]] == [("default", False), ("mail", True)]
    assert client.post("/api/queues/mail/resume").json() == {"was_paused": True}
    assert client.post("/api/queues/a%2Fb/pause").json()["name"] == "a/b"
    assert client.post("/api/queues/*/pause").json()["name"] == "*"
    assert client.get("/api/queues").json()["paused"]["name"] == "*"
    assert client.post("/api/tasks/greet/pause").json()["kind"] == "task"
    tasks = {one["name"]: one for one in client.get("/api/tasks?window=3600").json()["tasks"]}
    assert (tasks["greet"]["paused"]["name"], tasks["greet"]["pace"]["arrived"]) == (
        "greet",
        len(filled.list(type="greet").jobs),
    )
    found = client.get("/api/activity?window=3600&type=greet").json()
    assert sum(one["arrived"] or 0 for one in found["periods"]) == tasks["greet"]["pace"]["arrived"]
    assert client.post("/api/tasks/greet/resume").json() == {"was_paused": True}


def test_schedules_run_and_pause(client: Client, filled: Rowcall) -> None:
    filled.add_schedule("nightly", "greet", {"name": "Ann"}, every=3600)
    assert [one["name"] for one in client.get("/api/schedules").json()["schedules"]] == ["nightly"]
    assert client.post("/api/schedules/nightly/run").json()["job"]["type"] == "greet"
    assert client.post("/api/schedules/nightly/pause").json()["schedule"]["paused"]
    assert not client.post("/api/schedules/nightly/resume").json()["schedule"]["paused"]
    assert client.post("/api/schedules/other/run").status_code == 404


def test_workers_are_listed(client: Client, filled: Rowcall) -> None:
    assert client.get("/api/workers").json() == {"workers": []}
    with filled.worker():
        (found,) = client.get("/api/workers").json()["workers"]
    assert (found["state"], found["worker"]["concurrency"]) == ("alive", 10)


def test_a_prune_can_be_tried(client: Client) -> None:
    assert client.post("/api/prune", {"dry_run": True}).json() == {"jobs": 0, "by_status": ANY, "dry_run": True}


def test_limits_are_changed(client: Client, filled: Rowcall) -> None:
    for _ in range(3):
        filled.enqueue("greet", {"name": "Ann"}, limit=Limit("a/b", concurrency=1))
    filled.claim("w", limit=9)
    changed = client.post("/api/limits/a%2Fb", {"concurrency": 2}, method="PATCH").json()["limit"]
    assert (changed["concurrency"], changed["running"], changed["waiting"]) == (2, 1, 2)
    found = client.get("/api/limits").json()
    assert [(one["name"], one["is_set"]) for one in found["limits"]] == [("a/b", True)]
    assert [(one["event"], one["limit"]) for one in found["changes"]] == [("LIMIT_SET", "a/b")]
    assert not client.post("/api/limits/a%2Fb", {"reset": True}, method="PATCH").json()["limit"]["is_set"]
    for path, body, status in (
        ("/api/limits/other", {"concurrency": 1}, 404),
        ("/api/limits/a%2Fb", {}, 422),
        ("/api/limits/a%2Fb", {"rate": 3}, 422),
        ("/api/limits/a%2Fb", {"concurrency": 0}, 422),
        ("/api/limits/a%2Fb", {"reset": True, "concurrency": 1}, 422),
        ("/api/limits/a%2Fb", {"most": 1}, 422),
    ):
        assert client.post(path, body, method="PATCH").status_code == status, (path, body)


def test_batches_are_read_and_changed(client: Client, filled: Rowcall) -> None:
    batch, other = filled.batch("one"), filled.batch("two")
    batch.add(bind_by_name(queue_of(filled), "greet", {"name": "Ann"}, Options(delay_ms=60_000)))
    page = client.get("/api/batches?limit=1").json()
    assert [one["name"] for one in page["batches"]] == ["two"]
    assert [one["id"] for one in client.get(f"/api/batches?cursor={page['next_cursor']}").json()["batches"]] == [
        batch.id
    ]
    path = f"/api/batches/{batch.id}"
    assert client.get(path).json()["batch"]["waiting"] == 1
    assert client.post(f"{path}/seal", {}).json()["batch"]["status"] == "sealed"
    changed = client.post(f"{path}/cancel", {"reason": "wrong"}).json()
    assert (changed["changed"], changed["batch"]["status"], changed["batch"]["progress"]) == (1, "finished", 1.0)
    assert client.post(f"{path}/retry", {}).json()["changed"] == 0
    assert client.get(f"/api/jobs?batch={batch.id}&status=cancelled").json()["jobs"][0]["batch_id"] == batch.id
    assert client.post(f"/api/batches/{other.id + 1}/seal", {}).status_code == 404
