"""All connections of a process are in use."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from rowcall import Job, Rowcall, StoreUnavailable
from rowcall.drivers.patience import UNLIMITED, patience
from rowcall.testing import eventually
from tests.postgres.support import PostgresSite, ask
from tests.worker.support import ended, some_heartbeats

pytestmark = pytest.mark.concurrency

BUSY_TIMEOUT = 0.4
SAID = rf"all 1 connections of this process were busy for {BUSY_TIMEOUT:g} s\. Raise pool_size or busy_timeout"
WAITING = "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
def site(url: str, tmp_path: Path) -> Iterator[PostgresSite]:
    site = PostgresSite(tmp_path, url, pool_size=1, busy_timeout=BUSY_TIMEOUT)
    site.jobs.migrate()
    yield site
    site.jobs.close()


@contextlib.contextmanager
def locked(site: PostgresSite, job: Job) -> Iterator[None]:
    """Lock the job's row, so that any other transaction on it waits and keeps a connection busy."""
    with psycopg.connect(site.url) as holder:
        holder.execute("select from rowcall_job where id = %s for update", [job.id])
        yield


@contextlib.contextmanager
def exhausted(site: PostgresSite) -> Iterator[Future[Job]]:
    """The only connection is busy with a call that waits for a lock."""
    job = site.jobs.enqueue("task", queue="locked", delay=600)
    with ThreadPoolExecutor(1) as threads:
        with locked(site, job):
            waiting = threads.submit(patience(UNLIMITED)(site.jobs.cancel), job.id)
            eventually(lambda: ask(site.url, WAITING))
            yield waiting
        assert waiting.result(20).status == "cancelled"


@pytest.mark.slow
def test_others_get_an_error_after_the_busy_timeout_and_what_to_do(site: PostgresSite, jobs: Rowcall) -> None:
    calls: list[Callable[[], object]] = [
        lambda: jobs.get(1),
        jobs.stats,
        lambda: jobs.claim("me"),
        lambda: asyncio.run(jobs.aget(1)),
        lambda: asyncio.run(jobs.aclaim("me")),
    ]
    with exhausted(site) as waiting:
        for call in calls:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match=SAID):
                call()
            assert time.monotonic() - began >= BUSY_TIMEOUT * 0.9
        assert not waiting.done()
    for call in calls:
        call()


def test_enqueueing_continues(site: PostgresSite, jobs: Rowcall) -> None:
    with exhausted(site):
        made = [jobs.enqueue("task"), asyncio.run(jobs.aenqueue("task"))]
    assert [jobs.get(job.id).status for job in made] == ["pending", "pending"]


def test_async_calls_that_wait_do_not_hold_up_the_others_for_ever(site: PostgresSite, jobs: Rowcall) -> None:
    async def wait_next_to_one_that_waits(job: Job) -> Job:
        with patience(UNLIMITED):
            waiting = asyncio.ensure_future(jobs.acancel(job.id))
        await asyncio.to_thread(eventually, lambda: ask(site.url, WAITING))
        with pytest.raises(StoreUnavailable, match=SAID):
            await asyncio.wait_for(jobs.aget(job.id), 20)
        written = await asyncio.wait_for(jobs.aenqueue("task"), 20)
        assert not waiting.done()
        waiting.cancel()
        return written

    job = jobs.enqueue("task", delay=600)
    with locked(site, job):
        written = asyncio.run(wait_next_to_one_that_waits(job))
    assert jobs.get(written.id).status == "pending"


@pytest.mark.slow
def test_a_worker_in_the_same_process_is_not_taken_for_lost(site: PostgresSite, jobs: Rowcall) -> None:
    @jobs.task
    def note(text: str) -> str:
        return text

    with jobs.worker(lease=1) as worker, site.worker(lease=1, queues="other") as watching:
        with exhausted(site), Rowcall(site.url) as elsewhere:
            some_heartbeats(elsewhere, 10)
            assert len(elsewhere.workers()) == 2
        assert ended(jobs, note.enqueue("next")).worker == worker.name
        assert "is gone" not in watching.output
        assert "was silent" not in watching.output
