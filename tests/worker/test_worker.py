"""A worker next to an app, in an async program, and for one drain: started and stopped the same way."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rowcall import Backoff, Context, InvalidOption, Rowcall, SchemaMismatch, Snooze, Summary
from rowcall.app import queue_of
from rowcall.testing import eventually
from rowcall.worker.outage import Outage
from tests.worker.support import ended, outcomes


def test_next_to_an_app_in_threads(jobs: Rowcall) -> None:
    names: set[str] = set()

    @jobs.task
    def in_thread() -> None:
        names.add(threading.current_thread().name)

    @jobs.task
    async def on_loop() -> None:
        names.add(threading.current_thread().name)

    with jobs.worker(concurrency=3) as worker:
        assert [info.name for info in jobs.workers()] == [worker.name]
        (info,) = jobs.workers()
        assert (info.pid, info.concurrency, info.queues) == (os.getpid(), 3, "*")
        for job in (in_thread.enqueue(), on_loop.enqueue()):
            assert ended(jobs, job).status == "succeeded"
    assert jobs.workers() == []
    assert threading.main_thread().name not in names


def test_in_an_async_program_handlers_run_on_its_own_loop(jobs: Rowcall) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @jobs.task
    async def on_loop() -> str:
        loops.append(asyncio.get_running_loop())
        return "here"

    @jobs.task
    def in_thread() -> str:
        return threading.current_thread().name

    async def app() -> asyncio.AbstractEventLoop:
        async with jobs.worker():
            made = [await on_loop.aenqueue(), await in_thread.aenqueue()]
            while not all([(await jobs.aget(job.id)).status == "succeeded" for job in made]):
                await asyncio.sleep(0.005)
            assert (await jobs.aget(made[1].id)).result != threading.current_thread().name
        return asyncio.get_running_loop()

    loop = asyncio.run(app())
    assert loops == [loop]
    assert jobs.workers() == []


def test_leaving_an_async_program_lets_its_handlers_finish(jobs: Rowcall) -> None:
    started = threading.Event()

    @jobs.task
    async def slow() -> str:
        started.set()
        await asyncio.sleep(0.05)
        return "finished"

    job = slow.enqueue()

    async def app() -> None:
        async with jobs.worker():
            while not started.is_set():
                await asyncio.sleep(0.001)

    asyncio.run(app())
    assert jobs.get(job.id).result == "finished"


def test_stopping_finishes_what_runs(jobs: Rowcall, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="rowcall")
    started, go = threading.Event(), threading.Event()

    @jobs.task
    def slow() -> None:
        started.set()
        go.wait()

    job = slow.enqueue()
    with jobs.worker(concurrency=1) as worker:
        assert started.wait(10)
        waiting = slow.enqueue()
        worker.ask_to_stop()
        assert not worker.ended.is_set()
        assert f"worker {worker.name} stops; 1 running job has up to 30 s to finish" in caplog.messages
        go.set()
    assert jobs.get(job.id).status == "succeeded"
    assert jobs.get(waiting.id).status == "pending"


def test_a_second_start_or_stop_does_nothing(jobs: Rowcall) -> None:
    worker = jobs.worker()
    worker.stop()
    worker.start()
    worker.start()
    assert len(jobs.workers()) == 1
    worker.stop()
    worker.stop()
    worker.ask_to_stop()
    worker.stop_at_once()
    worker.stop()
    assert jobs.workers() == []


def test_stop_from_many_threads_at_once(jobs: Rowcall) -> None:
    with jobs.worker() as worker:
        threads = [threading.Thread(target=worker.stop) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
    assert jobs.workers() == []


def test_stop_at_once_releases_running_jobs(jobs: Rowcall) -> None:
    go, begun = threading.Event(), threading.Barrier(3)
    cancelled: list[str] = []

    @jobs.task(max_attempts=1)
    def in_thread() -> None:
        begun.wait(10)
        go.wait()

    @jobs.task(max_attempts=1)
    async def on_loop() -> None:
        await asyncio.to_thread(begun.wait, 10)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("on_loop")
            raise

    made = [in_thread.enqueue(), on_loop.enqueue()]
    with jobs.worker() as worker:
        begun.wait(10)  # a claimed job whose handler has not begun leaves no attempt behind
        worker.stop_at_once()
        assert worker.ended.wait(10)
    go.set()
    for job in made:
        assert (jobs.get(job.id).status, jobs.get(job.id).attempt) == ("pending", 0)
        assert outcomes(jobs, job) == ["released"]


def test_a_worker_that_stops_leaves_no_thread_and_no_descriptor_behind(jobs: Rowcall) -> None:
    @jobs.task
    async def on_loop() -> None: ...

    @jobs.task
    def in_thread() -> None: ...

    def once() -> None:
        on_loop.enqueue()
        in_thread.enqueue()
        jobs.drain()

    others = set(threading.enumerate())  # of queues that other tests of this process keep open

    def ours() -> int:
        return len([thread for thread in set(threading.enumerate()) - others if thread.name.startswith("rowcall-")])

    once()
    eventually(lambda: ours() == 0)
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        once()
    eventually(lambda: ours() == 0)
    eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)


def test_drain_runs_all_due_jobs_and_returns_a_summary(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=3, retry=Backoff.constant(0))
    async def flaky(ctx: Context) -> None:
        if ctx.job.attempt < 3:
            raise ValueError("not yet")

    @jobs.task(max_attempts=1)
    def broken() -> None:
        raise ValueError("never")

    @jobs.task
    def sleepy() -> None:
        raise Snooze(3600)

    @jobs.task
    def fine(depth: int) -> None:
        if depth:
            fine.enqueue(depth - 1)

    flaky.enqueue()
    broken.enqueue()
    sleepy.enqueue()
    fine.enqueue(3)
    later = fine.using(delay=3600).enqueue(0)
    assert jobs.drain() == Summary(succeeded=5, failed=1, retried=2, snoozed=1)
    assert jobs.get(later.id).status == "scheduled"
    assert jobs.drain() == Summary()
    assert jobs.drain().total == 0


def test_drain_leaves_other_queues_alone(jobs: Rowcall) -> None:
    @jobs.task
    def one() -> None: ...

    one.using(queue="mail").enqueue()
    one.using(queue="default").enqueue()
    assert jobs.drain(queues=["mail"]).succeeded == 1
    assert jobs.stats().by_queue["default"]["pending"] == 1


def test_adrain_does_not_block_the_event_loop(jobs: Rowcall) -> None:
    go = threading.Event()

    @jobs.task
    def waits() -> str:
        go.wait()
        return "went"

    async def main() -> Summary:
        await waits.aenqueue()
        draining = asyncio.ensure_future(jobs.adrain())
        while not jobs.stats().by_status["running"]:
            await asyncio.sleep(0.001)
        go.set()
        return await draining

    assert asyncio.run(main()) == Summary(succeeded=1)


def test_drain_in_memory() -> None:
    with Rowcall("sqlite:///:memory:") as jobs:

        @jobs.task
        def one() -> int:
            return 1

        job = one.enqueue()
        assert jobs.drain().succeeded == 1
        assert jobs.get(job.id).result == 1


def test_two_workers_in_one_process_share_the_work(jobs: Rowcall) -> None:
    @jobs.task
    async def one() -> None: ...

    with jobs.worker(concurrency=2), jobs.worker(concurrency=2):
        assert len(jobs.workers()) == 2
        one.enqueue_many([{}] * 500)
        eventually(lambda: jobs.stats().by_status["succeeded"] == 500)
    assert all(job.attempt == 1 for job in jobs.list(limit=500).jobs)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"concurrency": 1001},
        {"concurrency": True},
        {"concurrency": "3"},
        {"queues": "mail=x"},
        {"queues": "mail=0"},
        {"queues": ""},
        {"queues": []},
        {"queues": {"mail": -1}},
        {"queues": ["a\0b"]},
        {"grace": -1},
        {"grace": "30"},
        {"lease": 0},
        {"lease": float("nan")},
    ],
)
def test_a_wrong_setting_is_refused_before_anything_starts(jobs: Rowcall, options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption) as caught:
        jobs.worker(**options)  # type: ignore[arg-type]
    assert caught.value.option == next(iter(options))


def test_all_wrong_settings_are_reported_at_once(jobs: Rowcall) -> None:
    with pytest.raises(InvalidOption) as caught:
        jobs.worker(concurrency=0, queues="x=", grace=-1, lease=-1)
    for option in ("concurrency", "queues", "grace", "lease"):
        assert option in str(caught.value)


def test_a_worker_that_cannot_register_says_so_where_it_is_started(tmp_path: Path) -> None:
    (tmp_path / "queue.db").write_bytes(b"not a database" * 100)
    with Rowcall(tmp_path / "queue.db") as jobs, pytest.raises(Exception, match="not a SQLite database"), jobs.worker():
        pytest.fail("it must not come this far")


def test_a_table_that_is_dropped_under_a_worker_ends_it_and_nothing_else_is_promised(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    with jobs.worker(lease=1) as worker:
        with closing(sqlite3.connect(queue_of(jobs).database.path)) as connection:
            connection.execute("drop table rowcall_job")
        assert worker.ended.wait(20)
    assert isinstance(worker.failure, SchemaMismatch)
    assert "the table rowcall_job is missing, though the tables are at version" in str(worker.failure)
    Outage(queue_of(jobs).clock).noticed("recovery", worker.failure)
    assert caplog.messages[-1] == str(worker.failure)
    assert [line for line in caplog.messages if "trying again" in line] == []
