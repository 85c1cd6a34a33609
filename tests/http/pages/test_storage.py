from __future__ import annotations

from rowcall import Rowcall
from tests.http.client import Client, client_of


def test_what_is_kept_is_shown(client: Client) -> None:
    page = client.page("/storage")
    assert "Finished jobs kept" in page
    assert 'class="state failed"' in page
    client.submit("/queues", "/prune")
    assert "Deleted 0 jobs" in client.page("/storage")


def test_nothing_is_kept(jobs: Rowcall) -> None:
    with client_of(jobs) as client:
        assert "Nothing is kept" in client.page("/storage")
