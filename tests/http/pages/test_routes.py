from __future__ import annotations

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from tests.http.client import Client


def test_a_form_needs_the_token_of_its_page(client: Client, filled: Rowcall) -> None:
    client.page("/jobs/2")
    for content in (b"", b"csrf=wrong", b"csrf=%ff", b"\xff\xff", b"&".join([b"a=1"] * 3000)):
        assert client.send("POST", "/jobs/2/retry", content).status_code in (400, 403)
    assert filled.get(2).status == "failed"


@pytest.mark.parametrize("path", ["https://evil.example/", "//evil.example", "/\\evil.example", "", "javascript:1"])
def test_a_form_returns_to_this_site(client: Client, path: str) -> None:
    assert client.submit("/jobs/2", "/jobs/2/retry", {"return_to": path}).headers["location"] == "/"


def test_a_page_does_not_wait_until_jobs_are_counted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowcall.http.shared_counts.QUICK_SECONDS", 0)
    answer = client.get("/")
    assert "Counting jobs" in answer.text
    assert answer.headers["refresh"] == "1"
    eventually(lambda: "Counting jobs" not in client.page("/"))
    eventually(lambda: client.get("/queues").headers.get("refresh") is None)


def test_what_cannot_be_done_is_a_page_that_says_why(client: Client) -> None:
    answer = client.submit("/jobs/3", "/jobs/3/retry")
    assert answer.status_code == 409
    assert "it will run without a retry" in answer.text
    assert answer.headers["content-type"].startswith("text/html")
