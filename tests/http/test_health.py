from __future__ import annotations

from pathlib import Path

from rowcall import Rowcall
from tests.http.client import Client, client_of


def test_ready_while_the_database_answers(client: Client, filled: Rowcall, tmp_path: Path) -> None:
    assert client.get("/healthz").text == "ok\n"
    assert client.get("/readyz").text == "ready\n"


def test_not_ready_without_a_database(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "missing" / "app.db") as jobs, client_of(jobs) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        assert client.get("/api/stats").status_code == 503
        assert client.get("/").status_code == 503


def test_prometheus_reads_the_state_of_the_queues(client: Client) -> None:
    found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=")
    assert 'rowcall_jobs{queue="mail",status="failed"} 1.0' in found.text
    assert "rowcall_up 1.0" in found.text
