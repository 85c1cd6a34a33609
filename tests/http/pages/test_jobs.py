from __future__ import annotations

import html
import re

import pytest

from rowcall import Rowcall
from tests.http.client import Client, client_of

READ_TOKEN = "r" * 20


def test_jobs_are_filtered_by_links(client: Client) -> None:
    page = client.page("/jobs?status=failed&queue=mail")
    assert "/jobs/2" in page
    assert '/jobs/1"' not in page
    assert "INTERNAL:ValueError: a &lt; b &amp; c" in page


def test_times_are_as_a_browser_sends_them(client: Client) -> None:
    assert "No jobs match" in client.page("/jobs?created_before=2026-01-02T09:00")
    assert 'value="2026-01-02T09:00"' in client.page("/jobs?created_after=2026-01-02T10:00%2B01:00")
    question = "/jobs/confirm?action=delete&created_after=2026-01-02T09:00"
    assert "Delete 3 jobs?" in client.page(question)
    answer = client.submit(question, "/jobs/delete", {"filter.created_after": "2026-01-02T09:00", "all": "true"})
    assert answer.status_code == 303


def test_pages_are_linked(client: Client) -> None:
    assert 'rel="next"' in client.page("/jobs?limit=1")
    assert 'rel="next"' not in client.page("/jobs?limit=3")


def test_a_long_search_says_how_far_it_came(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowcall.http.api.jobs.SEARCH_SECONDS", 0)
    client.post("/api/jobs", {"jobs": [{"task": "greet", "arguments": {"name": "Kim"}}] * 100})
    page = client.page("/jobs?payload=name%3DAnn")
    assert "Nothing among 51 jobs" in page
    assert client.get("/api/jobs?payload=name%3DAnn").json()["searched"] == 51
    found = re.search(r'href="(\?[^"]*cursor=[^"]*)"', page)
    assert found is not None
    again = "/jobs" + html.unescape(found[1])
    assert "Nothing among 51 jobs" in client.page(again)
    monkeypatch.setattr("rowcall.http.api.jobs.SEARCH_SECONDS", 60)
    assert '<span class="key">name</span> Ann' in client.page(again)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ('payload={"a', "payload must be customer=7"),
        ("status=lost", "status must be one of"),
        ("cursor=x", "cursor"),
        ("created_after=yesterday", "created_after must be a time such as 2026-01-02T09:00"),
    ],
)
def test_a_wrong_filter_is_explained_next_to_it(client: Client, query: str, problem: str) -> None:
    page = client.page(f"/jobs?{query}")
    assert 'role="alert"' in page
    assert problem in page


def test_all_that_match_are_confirmed_with_their_number(client: Client, filled: Rowcall) -> None:
    query = "status=failed&error_code=INTERNAL:*"
    page = client.page(f"/jobs/confirm?action=retry&{query}")
    assert "Retry 1 job?" in page
    fields = {"filter.status": "failed", "filter.error_code": "INTERNAL:*", "all": "true"}
    answer = client.submit(f"/jobs/confirm?action=retry&{query}", "/jobs/retry", fields)
    assert answer.status_code == 303
    assert "1 job will run again" in client.page("/jobs")
    assert filled.get(2).status == "pending"


def test_selected_jobs_are_changed(client: Client, filled: Rowcall) -> None:
    page = client.page("/jobs/confirm?action=delete&ids=1&ids=2&back=%2Fjobs%3Fqueue%3Dmail")
    assert "Delete 2 jobs?" in page
    assert 'href="/jobs?queue=mail"' in page
    assert "evil" not in client.page("/jobs/confirm?action=delete&ids=1&back=https://evil.example")
    client.submit("/jobs/confirm?action=delete&ids=1", "/jobs/delete", {"ids": ["1", "2"]})
    assert [job.id for job in filled.list().jobs] == [3]


def test_the_question_says_which_jobs_have_succeeded(client: Client) -> None:
    for query, said in (
        ("ids=2", ""),
        ("ids=1&ids=2", "1 of them has succeeded. It runs again, and its result is deleted."),
        ("queue=mail", ""),
        ("status=succeeded&status=failed", "Jobs that have succeeded run again, and their results are deleted."),
    ):
        page = client.page(f"/jobs/confirm?action=retry&{query}")
        assert ("deleted." in page) is bool(said)
        assert said in page
        assert f'class="button {"danger" if said else "primary"}"' in page


def test_readers_see_no_buttons(filled: Rowcall) -> None:
    with client_of(filled, read_token=READ_TOKEN) as client:
        page = client.get("/jobs", authorization=f"Bearer {READ_TOKEN}").text
        assert "All that match" not in page
        assert client.get("/jobs/confirm?action=retry", authorization=f"Bearer {READ_TOKEN}").status_code == 403


def test_empty_pages_say_what_to_do(client: Client, tmp_path: object) -> None:
    assert "No jobs match" in client.page("/jobs?queue=other")
    with Rowcall("sqlite:///:memory:") as empty, client_of(empty) as other:
        assert "No jobs yet" in other.page("/jobs")
