from __future__ import annotations

import pytest

from rowcall import Rowcall
from rowcall.store.counts import questions
from tests.http.client import Client, client_of


@pytest.mark.parametrize("window", ["1h", "24h", "7d", "30d", "never"])
def test_counts_errors_and_tasks_are_shown(client: Client, window: str) -> None:
    page = client.page(f"/?window={window}")
    assert "<title>(1) Overview · Rowcall</title>" in page
    assert "favicon-failed.svg" in page
    assert "INTERNAL:<wbr>ValueError" in page
    assert "a &lt; b &amp; c" in page
    assert 'class="bar failed"' in page
    assert "1 arrived" in page or "3 arrived" in page or "2 arrived" in page


def test_an_empty_queue_says_what_to_do(jobs: Rowcall) -> None:
    with client_of(jobs) as client:
        page = client.page("/")
    assert "send_email.enqueue" in page
    assert "<title>Overview · Rowcall</title>" in page


def test_the_legend_says_what_is_known_of_arrivals(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [jobs.enqueue("send").id for _ in range(4)]
    with client_of(jobs) as client:
        assert '<li class="arrivals">arrived</li>' in client.page("/")
        jobs.delete(ids[0])
        since = f"{jobs.get(ids[1]).created_at:%d %b %H:%M}"
        assert f'<li class="arrivals">arrived (known since {since})</li>' in client.page("/?window=30d")
        monkeypatch.setattr(questions, "MOST_ARRIVALS_COUNTED", 2)
        page = client.page("/?window=30d")
    assert f'<li class="arrivals">arrived, about (known since {since})</li>' in page
    assert "about 3 arrived" in page
