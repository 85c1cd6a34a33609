from __future__ import annotations

import sqlite3
from contextlib import closing

from rowcall import Rowcall
from rowcall.app import queue_of
from tests.http.client import Client, client_of


def test_the_questions_are_answered(client: Client) -> None:
    assert client.get("/api/stats?window=60").json()["by_status"]["failed"] == 1
    errors = client.get("/api/errors?type=broken").json()
    assert errors["errors"][0]["error_code"] == errors["failing"][0]["error_code"] == "INTERNAL:ValueError"
    assert client.get("/api/retries").json()["by_attempts"] == {"0": 1, "1": 2}
    assert client.get("/api/stuck").json() == {"jobs": []}
    assert client.get("/api/retention").json()["jobs"] == 2


def test_what_needs_attention(jobs: Rowcall) -> None:
    with client_of(jobs) as client:
        assert client.get("/api/attention").json() == {"findings": []}
        assert 'rowcall_attention{code="paused"} 0.0' in client.get("/metrics").text
        jobs.pause(task="send", actor="ann")
        jobs.enqueue("send")
        with closing(sqlite3.connect(queue_of(jobs).database.path, isolation_level=None)) as raw:
            raw.execute("update rowcall_pause set at = at - 3600000")
        (found,) = client.get("/api/attention").json()["findings"]
        assert (found["code"], found["severity"]) == ("paused", "warning")
        assert found["message"].startswith("task send was paused 1 h ago by ann: 1 job has been due for ")
        assert found["evidence"] == {"task": "send", "actor": "ann", "due": 1, "jobs": [1]}
        assert found["link"] == "/jobs?status=pending&type=send"
        assert found["since"] is not None
        assert 'rowcall_attention{code="paused"} 1.0' in client.get("/metrics").text
        assert "task send was paused 1 h ago by ann" in client.page("/")


def test_wrong_questions(client: Client) -> None:
    for path in ("/api/stats?window=0", "/api/stats?window=nan", "/api/errors?limit=0", "/api/stuck?limit=x"):
        assert client.get(path).status_code == 422, path
