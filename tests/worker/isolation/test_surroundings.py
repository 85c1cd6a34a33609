"""Middleware and dependencies in child processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowcall import Context, LifespanFailed, Rowcall
from rowcall.app import queue_of
from rowcall.middleware import CallNext
from tests.worker import isolated, isolated_app


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rowcall]:
    """Another queue with the tasks of the app, which child processes import."""
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    with Rowcall(tmp_path / "app.db") as jobs:
        queue_of(jobs).declared.tasks.update(queue_of(isolated_app.jobs).declared.tasks)
        yield jobs


def results(jobs: Rowcall, *names: str) -> list[object]:
    sent = [jobs.enqueue(name) for name in names]
    jobs.drain(concurrency=1)
    return [jobs.get(job).result for job in sent]


def test_both_are_in_the_child_process(jobs: Rowcall, tmp_path: Path) -> None:
    found: Any = results(jobs, "pid", "apid", "use_connection", "use_pool")
    (child, pid), (achild, apid), (_, made), (_, same_loop) = found
    assert child == pid == achild == apid != os.getpid()
    assert made == [3, child]
    assert same_loop is True
    notes = (tmp_path / "notes").read_text().splitlines()
    assert notes == [f"{word} {child}" for word in ("open", "cursor", "end", "close")]


def test_enqueue_middleware_runs_where_the_handler_runs(jobs: Rowcall) -> None:
    jobs.enqueue("go_on", {"by_name": True})
    jobs.enqueue("go_on", {"by_name": False})
    jobs.drain(concurrency=1)
    went_on = jobs.list(type="went_on").jobs
    assert len(went_on) == 2
    assert os.getpid() not in {job.payload["process"] for job in went_on}


def test_a_dependency_of_the_worker_that_fails_in_a_child_ends_the_worker(
    jobs: Rowcall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES", str(tmp_path / "missing" / "notes"))
    job = jobs.enqueue("use_pool")
    with pytest.raises(LifespanFailed, match=r"isolated_app\.connection failed: FileNotFoundError.*in a child process"):
        jobs.drain()
    assert (jobs.get(job).status, jobs.get(job).attempt) == ("pending", 0)


def test_an_override_does_not_reach_the_child(jobs: Rowcall) -> None:
    job = jobs.enqueue("use_connection", max_attempts=1)
    with isolated_app.jobs.override(isolated_app.connection, lambda: 3):
        jobs.drain(concurrency=1)
    assert "override(…) does not reach child processes" in (jobs.get(job).error_detail or "")


def test_middleware_that_the_child_cannot_know_fails_the_attempt(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.middleware
        def unknown(ctx: Context, call_next: CallNext) -> object:
            return call_next()

        job = jobs.task(isolation="process", max_attempts=1)(isolated.where).enqueue()
        jobs.drain(concurrency=1)
        assert jobs.get(job).error_detail == (
            "middleware in a child process works only if the module tests.worker.isolated declares the task of where:"
            " the child learns from it which middleware there is"
        )
