"""The job in the log lines of structlog."""

from __future__ import annotations

from pathlib import Path

import structlog

from rowcall import Rowcall
from rowcall.middleware import structlog_context


def test_log_lines_have_the_fields_of_the_job(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.middleware(structlog_context())

        @jobs.task
        def in_a_thread() -> dict[str, object]:
            return dict(structlog.contextvars.get_contextvars())

        @jobs.task
        async def on_the_loop() -> dict[str, object]:
            return dict(structlog.contextvars.get_contextvars())

        @jobs.task(batch=2, batch_wait=0.0)
        def in_a_batch(items: list[int]) -> list[dict[str, object]]:
            return [dict(structlog.contextvars.get_contextvars()) for _ in items]

        sent = [in_a_thread.enqueue(), on_the_loop.enqueue()]
        batch = in_a_batch.enqueue(1)
        jobs.drain()
        for job in sent:
            found = jobs.get(job).result
            assert isinstance(found, dict)
            assert (found["job_id"], found["job_type"], found["job_attempt"]) == (job.id, job.type, 1)
        found = jobs.get(batch).result
        assert isinstance(found, dict)
        assert "job_id" not in found
        assert found["job_type"] == "in_a_batch"
    assert structlog.contextvars.get_contextvars() == {}
