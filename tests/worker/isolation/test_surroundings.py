"""Middleware in child processes."""

from __future__ import annotations

import os
from pathlib import Path

from rowcall import Context, Rowcall
from rowcall.middleware import CallNext
from tests.worker import isolated, isolated_app


def test_middleware_runs_in_the_child_process(tmp_path: Path) -> None:
    jobs = isolated_app.jobs
    jobs.configure(url=tmp_path / "app.db")
    try:
        sent = [isolated_app.pid.enqueue(), isolated_app.apid.enqueue()]
        jobs.drain(concurrency=1)
        for job in sent:
            result = jobs.get(job).result
            assert isinstance(result, list)
            assert result[0] == result[1] != os.getpid()
    finally:
        jobs.close()


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
