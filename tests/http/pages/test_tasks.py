from __future__ import annotations

from rowcall import Rowcall
from tests.http.client import Client, client_of


def test_tasks_have_their_counts_and_pauses(client: Client, filled: Rowcall) -> None:
    filled.pause(task="greet", actor="ann")
    filled.pause(task="never/enqueued")
    page = client.page("/tasks?window=24h")
    assert 'href="/tasks/greet"' in page
    assert "by ann" in page
    assert 'action="/tasks/never%2Fenqueued/resume"' in page
    assert 'class="spark"' in page


def test_one_task_shows_what_happened_and_how_it_is_declared(client: Client, filled: Rowcall) -> None:
    filled.task(name="report", queue="slow", timeout=90)(lambda month: None)
    page = client.page("/tasks/greet?window=7d")
    assert 'id="run-times"' in page
    assert "/jobs?type=greet&amp;finished_after=" in page
    page = client.page("/tasks/report")  # it has no job yet
    assert 'href="/queues/slow"' in page
    assert "1 min 30 s" in page
    assert client.get("/tasks/other").status_code == 404


def test_one_queue_shows_why_its_jobs_wait(client: Client, filled: Rowcall) -> None:
    filled.enqueue("greet", {"name": "Ann"}, queue="a/b")
    filled.pause("a/b", actor="ann")
    page = client.page("/queues/a%2Fb?window=24h")
    assert "queue a/b was paused by ann" in page
    assert 'action="/queues/a%2Fb/resume"' in page
    assert "No registered worker serves this queue." in page
    assert '<a href="/tasks/greet">' in page
    assert client.get("/queues/other").status_code == 404


def test_nothing_is_there(jobs: Rowcall) -> None:
    with client_of(jobs) as client:
        assert "No tasks yet" in client.page("/tasks")
