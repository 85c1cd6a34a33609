"""The lifespan of the app in child processes."""

from __future__ import annotations

import os

import pytest

from rowcall import LifespanFailed, Rowcall
from tests.worker import isolated
from tests.worker.isolation.support import enqueue
from tests.worker.support import Site, ended


@pytest.fixture(autouse=True)
def notes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES", str(site.folder))


def test_each_process_enters_and_leaves_its_own(site: Site, jobs: Rowcall) -> None:
    jobs.lifespan(isolated.resources)
    job = enqueue(jobs, isolated.use_resources)
    jobs.drain(concurrency=1)
    worker, result = os.getpid(), jobs.get(job).result
    assert isinstance(result, list)
    child, found = result
    assert found == child != worker
    assert site.lines == [f"enter {worker}", f"enter {child}", f"leave {worker}", f"leave {child}"]


def test_async_handlers_use_the_event_loop_of_an_async_one(site: Site, jobs: Rowcall) -> None:
    jobs.lifespan(isolated.async_resources)
    held = enqueue(jobs, isolated.use_event_loop, hold=True)
    made = [enqueue(jobs, isolated.use_event_loop) for _ in range(2)]
    jobs.edit(held, timeout=0.5)
    with jobs.worker(concurrency=1):
        assert [ended(jobs, job).result for job in made] == [True, True]
    assert jobs.get(held).error_code == "TIMEOUT:HANDLER"
    terminated = next(line.split()[1] for line in site.lines if line.startswith("end "))
    lines = [line for line in site.lines if line.endswith(f" {terminated}")]
    assert lines == [f"enter {terminated}", f"end {terminated}", f"leave {terminated}"]
    pids = {line.split()[1] for line in site.lines}
    assert len(pids) == 3
    assert {line for line in site.lines if line.startswith("leave ")} == {f"leave {pid}" for pid in pids}


def test_one_that_fails_in_a_child_ends_the_worker_and_fails_no_job(
    jobs: Rowcall, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTES", str(os.getpid()))
    jobs.lifespan(isolated.resources_of_the_worker_only)
    job = enqueue(jobs, isolated.use_resources)
    with pytest.raises(LifespanFailed, match="OSError: too many connections \\(in a child process\\)"):
        jobs.drain()
    assert (jobs.get(job).status, jobs.get(job).attempt) == ("pending", 0)
    assert "Traceback" in caplog.text
