"""How a child process ends, and what goes with it."""

from __future__ import annotations

import os
import signal

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.testing import eventually
from rowcall.worker.lanes.dispatcher import Dispatcher
from tests.worker import isolated
from tests.worker.isolation.support import enqueue, is_gone, run_app, started
from tests.worker.support import Site, claimed, comes_to, ended


def test_a_child_that_dies_is_a_failed_attempt_and_the_next_job_has_another(jobs: Rowcall) -> None:
    ways = {"exit": "exit code 7", "kill": "SIGKILL", "segfault": "SIGSEGV"}
    made = {way: enqueue(jobs, isolated.die, way=way) for way in ways}
    after = enqueue(jobs, isolated.say, words=["y" * 300_000])
    jobs.drain(concurrency=1)
    for way, how in ways.items():
        failed = jobs.get(made[way].id)
        assert (failed.status, failed.error_code) == ("failed", "PROCESS:DIED")
        assert how in (failed.error_detail or "")
    assert jobs.get(after.id).status == "succeeded"


def test_what_a_handler_leaves_behind_goes_with_its_child(site: Site, jobs: Rowcall) -> None:
    job = enqueue(jobs, isolated.start_a_sleeper, folder=str(site.folder))
    jobs.drain(concurrency=1)
    assert jobs.get(job.id).error_code == "PROCESS:DIED"
    eventually(lambda: is_gone(int(site.lines[0].split()[1])))


def test_a_process_that_outlives_its_child_does_not_keep_the_job(
    site: Site, jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    job = enqueue(jobs, isolated.leave_a_daemon, folder=str(site.folder))
    with jobs.worker(concurrency=1, grace=0):
        try:
            done = ended(jobs, job)
        finally:
            site.open("daemon")
    assert (done.error_code, "exit code 7" in (done.error_detail or "")) == ("PROCESS:DIED", True)
    said = [record.getMessage() for record in caplog.records if record.getMessage().startswith("said ")]
    assert said == [f"said {number}" for number in range(100)]


@pytest.mark.parametrize("killed", [False, True], ids=["refused", "killed"])
def test_more_memory_than_allowed_ends_the_attempt_and_not_the_worker(jobs: Rowcall, killed: bool) -> None:
    jobs.task(isolation="process", memory_limit="128MB", max_attempts=1)(isolated.eat)
    greedy = jobs.enqueue("eat", {"megabytes": 110 if killed else 500, "then_be_killed": killed})
    modest = jobs.enqueue("eat", {"megabytes": 5})
    jobs.drain(concurrency=1)
    assert (jobs.get(greedy.id).status, jobs.get(greedy.id).error_code) == ("failed", "RESOURCE:OUT_OF_MEMORY")
    assert jobs.get(modest.id).result == 5


def test_a_child_that_dies_while_it_is_idle_costs_no_attempt(jobs: Rowcall) -> None:
    for _ in range(2):
        enqueue(jobs, isolated.where_async)
    dispatcher = Dispatcher(1, lambda: None, queue_of(jobs).clock, None, tasks=queue_of(jobs).declared.tasks)
    pids = []
    for run in claimed(jobs, 2):
        dispatcher.accept([run], [])
        dispatcher.start_accepted()
        eventually(lambda: dispatcher.has_ended)
        dispatcher.pop_ended()
        assert run.transition is not None
        assert run.transition.result is not None
        pids.append(int(run.transition.result))
        os.kill(pids[-1], signal.SIGKILL)
    assert pids[0] != pids[1]
    dispatcher.close()


APP = """
from rowcall import Rowcall
from tests.worker import isolated

jobs = Rowcall("sqlite:///queue.db")
hold = jobs.task(isolation="process", max_attempts=1)(isolated.hold)
"""


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_they_die_with_their_worker(site: Site, jobs: Rowcall, number: signal.Signals) -> None:
    job = jobs.enqueue("hold", {"folder": str(site.folder), "name": "x"})
    with run_app(site, APP, "-m", "rowcall", "work", "app:jobs", "--grace", "0") as worker:
        pid = started(site, "x")
        assert pid != worker.pid
        worker.send(number)
        eventually(lambda: is_gone(pid))
        eventually(lambda: not worker.alive)
        if number is signal.SIGTERM:
            assert comes_to(jobs, job, "pending").attempt == 0
