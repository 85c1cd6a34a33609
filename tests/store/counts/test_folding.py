"""Counting again, after plain SQL has changed rows without a trigger."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.statement import Statement, as_is


@pytest.fixture(params=["sqlite", "postgresql"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Rowcall:
    url = f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return Rowcall(url)


def change(jobs: Rowcall, sql: str) -> None:
    def plan():  # type: ignore[no-untyped-def]
        yield Statement(sql, (), as_is)

    queue_of(jobs).run(Write(plan))


def test_what_plain_sql_has_changed_is_counted_again(jobs: Rowcall) -> None:
    with jobs:

        @jobs.task
        def send() -> None: ...

        send.enqueue_many([{}] * 5)
        jobs.drain()
        waiting = send.using(delay=60).enqueue()
        change(jobs, "update rowcall_job set status = 'failed', error_code = 'A:B' where id < 3")
        change(jobs, f"update rowcall_job set status = 'cancelled' where id = {waiting.id}")
        jobs.recount()
        stats = jobs.stats()
        assert {status: count for status, count in stats.by_status.items() if count} == {
            "succeeded": 3,
            "failed": 2,
            "cancelled": 1,
        }
        assert stats.pace.succeeded == 5  # what has been is not changed by it
        assert [(group.error_code, group.count) for group in jobs.top_errors()] == [("A:B", 2)]
        assert [job.id for job in jobs.list(status="cancelled").jobs] == [waiting.id]
        jobs.delete(1)
        asyncio.run(jobs.arecount())
        assert jobs.stats().by_status["failed"] == 1
