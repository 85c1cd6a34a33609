"""Jobs become pending when they are due."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.claims.round import stage
from rowcall.store.sqlite.dialect import SqliteDialect

DUE_AT = datetime(2040, 1, 1, tzinfo=UTC)


def test_a_job_that_falls_due_meanwhile_has_the_same_status_in_its_tags(tmp_path: Path) -> None:
    """The clock moves on between two statements."""
    due_ms = round(DUE_AT.timestamp() * 1000)
    times = iter(range(due_ms - 1, due_ms + 9))
    with Rowcall(tmp_path / "app.db") as jobs:
        job = jobs.enqueue("send", tags=["red"], run_at=DUE_AT)
        dialect = SqliteDialect("rowcall_", lambda: next(times))
        queue_of(jobs).run(Write(lambda: stage(dialect)))
        assert [one.id for one in jobs.list(tag="red", status=jobs.get(job).status).jobs] == [job.id]
