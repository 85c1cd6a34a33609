"""Rows that are written again, only as they were read."""

from __future__ import annotations

from pathlib import Path

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Read, Write
from rowcall.store.control.rekey import rewrite_jobs
from rowcall.store.queries.control import TEXTS_OF_JOBS


def test_a_job_that_was_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        job = jobs.enqueue("work", {"number": 1})
        queue = queue_of(jobs)
        (before,) = queue.run(Read(queue.dialect.ask(TEXTS_OF_JOBS, 0, 10)))
        after = before._replace(payload='{"number":3}')
        jobs.edit(job, {"number": 2})
        assert queue.run(Write(rewrite_jobs, queue.dialect, [(before, after)])) == 0
        assert jobs.get(job).payload == {"number": 2}
        (before,) = queue.run(Read(queue.dialect.ask(TEXTS_OF_JOBS, 0, 10)))
        assert queue.run(Write(rewrite_jobs, queue.dialect, [(before, after)])) == 1
        assert jobs.get(job).payload == {"number": 3}
