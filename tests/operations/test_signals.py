"""Signals and steps, for async code; large values; on the caller's connection."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Context, InvalidOption, JobNotFound, Rowcall
from rowcall.testing.fake_clock import FakeClock


def test_async_twins_and_large_values(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", clock=FakeClock()) as jobs:

        @jobs.task
        async def handler(ctx: Context) -> int:
            return len(await ctx.wait_for("go"))

        job = handler.enqueue()
        asyncio.run(jobs.asignal(job, "go", "x" * 3_000_000))
        jobs.drain()
        assert jobs.get(job).result == 3_000_000
        assert [len(str(step.result)) for step in asyncio.run(jobs.asteps(job))] == [3_000_000]


def test_a_signal_of_a_transaction_that_is_rolled_back_was_not_sent(tmp_path: Path) -> None:
    with Rowcall(tmp_path / "app.db", clock=FakeClock()) as jobs:

        @jobs.task
        def handler(ctx: Context) -> object:
            return ctx.wait_for("go")

        job = handler.enqueue()
        jobs.drain()
        with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as connection:
            with pytest.raises(InvalidOption, match="has no transaction open"):
                jobs.signal(job, "go", 0, connection=connection)
            connection.execute("begin immediate")
            jobs.signal(job, "go", 1, connection=connection)
            connection.rollback()
            jobs.drain()
            assert jobs.get(job).status == "scheduled"
            connection.execute("begin immediate")
            jobs.signal(job, "go", 2, connection=connection)
            connection.commit()
        jobs.drain()
        assert jobs.get(job).result == 2
        with pytest.raises(JobNotFound):
            jobs.signal(99, "go")
