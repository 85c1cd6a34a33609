"""How far a handler says it is: seen by others while it runs, and written a few times however often it is said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rowcall import Context, Rowcall
from rowcall.app import queue_of
from rowcall.operations.effects import Write
from rowcall.store.dialect import Dialect
from rowcall.store.jobs.marks import mark
from rowcall.store.queries.claims import Mark
from rowcall.store.statement import Plan
from rowcall.testing import eventually
from rowcall.worker import progress


@pytest.fixture(params=["sqlite", "postgresql"])
def jobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rowcall]:
    url = f"sqlite:///{tmp_path}/app.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with Rowcall(url) as jobs:
        yield jobs


def test_it_is_seen_while_the_handler_runs(jobs: Rowcall) -> None:
    go_on = threading.Event()

    @jobs.task
    def resize(ctx: Context) -> None:
        ctx.progress(0.4, "resizing")
        go_on.wait()

    job = resize.enqueue()
    with jobs.worker():
        eventually(lambda: jobs.get(job.id).progress == 0.4)
        (stuck,) = jobs.stuck()
        assert (stuck.progress_message, stuck.progress) == ("resizing", 0.4)
        assert jobs.get(job.id).heartbeat_at is not None
        assert ("PROGRESS", "40 %: resizing") in [(line.event, line.detail) for line in jobs.timeline(job.id)]
        go_on.set()
        eventually(lambda: jobs.get(job.id).status == "succeeded")


def test_ten_thousand_reports_are_a_few_writes(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Sequence[Mark]] = []

    def noted(dialect: Dialect, rows: Sequence[Mark]) -> Plan[None]:
        written.append(rows)
        return mark(dialect, rows)

    monkeypatch.setattr(progress, "mark", noted)
    go_on = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    @jobs.task
    async def count(ctx: Context) -> None:
        loops.append(asyncio.get_running_loop())
        for number in range(10_000):
            ctx.progress(number / 10_000)
        await go_on.wait()

    job = count.enqueue()
    with jobs.worker():
        eventually(lambda: jobs.get(job.id).progress == 0.9999)
        assert len(written) <= 20
        loops[0].call_soon_threadsafe(go_on.set)
        eventually(lambda: jobs.get(job.id).status == "succeeded")


def test_a_report_about_an_attempt_that_has_ended_changes_nothing(jobs: Rowcall) -> None:
    kept: list[Context] = []

    @jobs.task
    def leave(ctx: Context) -> None:
        kept.append(ctx)

    job = leave.enqueue()
    jobs.drain()
    kept[0].progress(0.5)
    assert jobs.get(job.id).progress is None
    report = Mark(job.id, 1, job.holder, progress=0.5)
    queue_of(jobs).run(Write(lambda: mark(queue_of(jobs).dialect, [report])))
    assert jobs.get(job.id).progress is None


@pytest.mark.parametrize("share", [-0.1, 1.1, "0.5", True, None, float("nan")])
def test_what_is_no_share_fails_the_attempt_and_says_why(tmp_path: Path, share: float) -> None:
    with Rowcall(tmp_path / "app.db") as jobs:

        @jobs.task(max_attempts=1)
        def resize(ctx: Context) -> None:
            ctx.progress(share)

        job = resize.enqueue()
        assert jobs.drain().failed == 1
        assert "must be a number from 0 to 1" in (jobs.get(job.id).error_detail or "")
