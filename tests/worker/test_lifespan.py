"""How a worker enters and leaves the lifespan of its app."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rowcall import Context, LifespanFailed, Rowcall
from rowcall.testing import eventually
from rowcall.testing.process import ForkedProcess
from rowcall.worker.loop import Loop


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Rowcall]:
    with Rowcall(tmp_path / "app.db") as jobs:
        yield jobs


def test_each_worker_enters_and_leaves_it_in_one_thread(jobs: Rowcall) -> None:
    threads: list[int] = []

    @jobs.lifespan
    def resources() -> Iterator[None]:
        threads.append(threading.get_ident())
        yield
        threads.append(threading.get_ident())

    for _ in range(2):
        with jobs.worker():
            assert len(threads) % 2 == 1
    assert len(threads) == 4
    assert threads[0] == threads[1]
    assert threads[2] == threads[3]


def test_the_event_loop_of_the_app_is_used(jobs: Rowcall) -> None:
    loops: list[object] = []

    @jobs.lifespan
    async def resources() -> AsyncIterator[None]:
        loops.append(asyncio.get_running_loop())
        yield
        loops.append(asyncio.get_running_loop())

    async def use() -> None:
        async with jobs.worker():
            assert loops == [asyncio.get_running_loop()]
        assert loops == [asyncio.get_running_loop()] * 2

    asyncio.run(use())


def test_a_worker_that_is_stopped_on_its_own_event_loop_does_not_wait_for_it(jobs: Rowcall) -> None:
    left = []

    @jobs.lifespan
    async def resources() -> AsyncIterator[None]:
        yield
        left.append(True)

    async def use() -> None:
        worker = await jobs.worker().__aenter__()
        worker.stop()
        assert not left
        for _ in range(3):
            await asyncio.sleep(0)
        assert left

    asyncio.run(use())


def test_it_is_left_when_the_loop_crashes(jobs: Rowcall, monkeypatch: pytest.MonkeyPatch) -> None:
    left = []

    @jobs.lifespan
    def resources() -> Iterator[None]:
        yield
        left.append(True)

    def crash(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Loop, "_step", crash)
    with pytest.raises(ZeroDivisionError):
        jobs.drain()
    assert left == [True]


def test_an_error_while_it_is_left_is_the_failure_of_the_worker(
    jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.lifespan
    def resources() -> Iterator[None]:
        yield
        raise OSError("disk gone")

    @jobs.task
    def work() -> None: ...

    job = work.enqueue()
    with pytest.raises(LifespanFailed, match="OSError: disk gone"):
        jobs.drain()
    assert jobs.get(job).status == "succeeded"
    assert any(record.exc_info for record in caplog.records)
    worker = jobs.worker()
    with worker:
        pass
    assert isinstance(worker.failure, LifespanFailed)


def test_one_that_fails_is_raised_where_the_worker_is_started(jobs: Rowcall) -> None:
    @jobs.lifespan
    async def resources() -> AsyncIterator[None]:
        raise OSError("no cache")
        yield

    with pytest.raises(LifespanFailed, match="no cache") as failed, jobs.worker():
        pass
    assert isinstance(failed.value.__cause__, OSError)
    with pytest.raises(LifespanFailed, match="no cache"):
        jobs.work()

    async def use() -> None:
        async with jobs.worker():
            pass

    with pytest.raises(LifespanFailed, match="no cache"):
        asyncio.run(use())


def test_no_lifespan_no_resources(jobs: Rowcall) -> None:
    @jobs.task(max_attempts=1)
    def read(ctx: Context) -> None:
        assert ctx.resources

    job = read.enqueue()
    jobs.drain()
    assert "declares no lifespan" in (jobs.get(job).error_detail or "")


APP = """
import sys
from pathlib import Path
from rowcall import Context, Rowcall

jobs = Rowcall("sqlite:///app.db")

@jobs.lifespan
def resources():
    Path("entered").touch()
    if Path("broken").exists():
        raise OSError("the cache is down")
    yield
    Path("left").write_text(jobs.get(1).status)

@jobs.task
def work(ctx: Context) -> None:
    Path("started").touch()
    while not ctx.cancelled:
        if Path("go").exists():
            return
"""


def test_it_is_left_on_sigterm_after_the_last_settle(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with Rowcall(tmp_path / "app.db") as jobs:
        jobs.enqueue("work")
        with ForkedProcess("-m", "rowcall", "work", "app:jobs", cwd=str(tmp_path)) as process:
            eventually((tmp_path / "started").exists, message="its start")
            process.send(signal.SIGTERM)
            (tmp_path / "go").touch()
            assert process.wait() == 0
        assert (tmp_path / "left").read_text() == "succeeded"
        (tmp_path / "broken").touch()
        again = jobs.enqueue("work")
        with ForkedProcess("-m", "rowcall", "work", "app:jobs", cwd=str(tmp_path)) as process:
            assert process.wait() == 1
            assert "error: lifespan app.resources failed: OSError: the cache is down" in process.output
        assert jobs.get(again).attempt == 0
