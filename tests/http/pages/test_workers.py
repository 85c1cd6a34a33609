from __future__ import annotations

from rowcall import Rowcall
from tests.http.client import Client


def test_workers_and_what_they_run_are_shown(client: Client, filled: Rowcall) -> None:
    assert "No workers" in client.page("/workers")
    filled.enqueue("greet", {"name": "a"})
    (job,) = filled.claim("by-hand")
    page = client.page("/workers")
    assert "Running now" in page
    assert f"/jobs/{job.id}" in page
    with filled.worker(queues="mail"):
        assert 'class="state alive"' in client.page("/workers")
