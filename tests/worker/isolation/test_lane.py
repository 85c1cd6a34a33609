"""Handlers in child processes: where they run, how they are ended, and what is refused."""

from __future__ import annotations

import importlib
import os
import threading

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.testing import eventually
from rowcall.worker.isolation import child_process
from tests.worker import isolated
from tests.worker.isolation.support import enqueue, is_gone, started
from tests.worker.support import Site, comes_to, ended, outcomes

# where they run


def test_a_child_of_the_worker_serves_one_job_after_the_other(jobs: Rowcall) -> None:
    made = [enqueue(jobs, isolated.where, number=number) for number in range(5)]
    assert jobs.drain(concurrency=1).succeeded == 5
    found = [jobs.get(job.id).result for job in made]
    assert isinstance(found[0], list)
    pid = found[0][0]
    assert pid != os.getpid()
    assert found == [[pid, os.getpid(), served] for served in range(1, 6)]
    assert is_gone(pid)


# being ended


@pytest.mark.parametrize("stubborn", [False, True], ids=["heeds SIGTERM", "ignores SIGTERM"])
def test_a_timeout_ends_the_process_and_frees_the_slot(
    site: Site, jobs: Rowcall, stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stubborn:
        monkeypatch.setattr(child_process, "CHILD_GRACE_SECONDS", 0.1)
    jobs.task(isolation="process", max_attempts=1)(isolated.hold)
    job = jobs.enqueue("hold", {"folder": str(site.folder), "name": "x", "stubborn": stubborn}, timeout=1.0)
    after = enqueue(jobs, isolated.where)
    with jobs.worker(concurrency=1) as worker:
        assert ended(jobs, job).error_code == "TIMEOUT:HANDLER"
        assert ended(jobs, after).status == "succeeded"
        assert not worker.exhausted
        eventually(lambda: is_gone(started(site, "x")))
    assert ("end x" in site.lines) is not stubborn


def test_a_job_that_is_cancelled_by_hand_is_over_with_its_process(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x")
    with jobs.worker():
        pid = started(site, "x")
        jobs.cancel(job.id, "not needed")
        cancelled = ended(jobs, job)
        eventually(lambda: is_gone(pid), message="the end of its process")  # its interpreter may still be exiting
    assert (cancelled.status, cancelled.error_detail) == ("cancelled", "not needed")


SLOW_TO_IMPORT = """
import sys
import threading
from pathlib import Path

if "rowcall.worker.isolation.child" in sys.orig_argv:
    while not (Path(__file__).parent / "import.open").exists():
        threading.Event().wait(0.01)


def late() -> str:
    return "imported"
"""


def test_a_job_that_waits_for_its_process_is_cancelled_at_once(
    site: Site, jobs: Rowcall, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.folder / "slow_to_import.py").write_text(SLOW_TO_IMPORT)
    monkeypatch.syspath_prepend(site.folder)
    late = importlib.import_module("slow_to_import").late
    job, after = enqueue(jobs, late), enqueue(jobs, late)
    with jobs.worker(concurrency=1, grace=0):
        try:
            comes_to(jobs, job, "running")
            jobs.cancel(job.id, "not needed")
            cancelled = ended(jobs, job)
        finally:
            site.open("import")
        assert ended(jobs, after).result == "imported"
    assert (cancelled.status, cancelled.error_detail) == ("cancelled", "not needed")


def test_a_stopping_worker_lets_them_finish(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x")
    with jobs.worker():
        started(site, "x")
        eventually(lambda: jobs.get(job.id).progress == 0.5)
        site.open("x")
    assert jobs.get(job.id).result == "x"


def test_after_the_grace_period_they_are_terminated_and_their_jobs_released(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x")
    with jobs.worker(grace=0):
        pid = started(site, "x")
    assert is_gone(pid)
    assert (jobs.get(job.id).status, jobs.get(job.id).attempt) == ("pending", 0)
    assert outcomes(jobs, job) == ["released"]


# what is refused


def test_a_function_that_no_child_could_find_is_refused(jobs: Rowcall) -> None:
    def local() -> None: ...

    with pytest.raises(InvalidOption, match="define it at the top of a module"):
        jobs.task(isolation="process")(local)
    with pytest.raises(InvalidOption, match="top of a module"):
        jobs.task(isolation="process", name="nameless")(lambda: None)
    assert queue_of(jobs).declared.tasks == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isolation": "fork"}, "isolation must be thread or process, got 'fork'"),
        ({"memory_limit": "1GB"}, "memory_limit needs isolation='process'"),
        ({"memory_limit": "1GB", "isolation": "thread"}, "memory_limit needs isolation='process'"),
        ({"memory_limit": "much", "isolation": "process"}, "memory_limit must be a size such as '512MB'"),
        ({"memory_limit": True, "isolation": "process"}, "memory_limit must be a size such as '512MB'"),
        (
            {"memory_limit": 1024, "isolation": "process"},
            "number of bytes, at least 64MB, got 1024",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(jobs: Rowcall, options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        jobs.task(**options)  # type: ignore[call-overload]
    assert said in str(refused.value)


def test_a_queue_without_such_tasks_starts_no_process(jobs: Rowcall) -> None:
    @jobs.task(isolation="thread")
    def in_a_thread() -> int:
        return os.getpid()

    job = in_a_thread.enqueue()
    with jobs.worker():
        assert ended(jobs, job).result == os.getpid()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("rowcall-nursery")]


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_job_that_is_cancelled_ends_with_its_process(site: Site, jobs: Rowcall, stubborn: bool) -> None:
    job = enqueue(jobs, isolated.hold, folder=str(site.folder), name="x", stubborn=stubborn)
    with jobs.worker():
        pid = started(site, "x")
        jobs.cancel(job.id, "enough")
        done = ended(jobs, job)
        assert (done.status, done.error_code, done.error_detail) == ("cancelled", "CANCELLED:BY_HAND", "enough")
        eventually(lambda: is_gone(pid))
