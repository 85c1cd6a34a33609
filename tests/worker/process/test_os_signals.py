"""A worker that owns its process: signals, and what becomes of its jobs."""

from __future__ import annotations

import signal
import subprocess

import pytest

from rowcall import Rowcall
from rowcall.testing import eventually
from rowcall.testing.process import PythonProcess
from tests.worker.support import Site, comes_to, outcomes

pytestmark = pytest.mark.concurrency


def stop_at_once(process: PythonProcess) -> None:
    """A first signal, and then more until one is taken for a second."""
    process.send(signal.SIGTERM)
    process.wait_for("stopping:")

    def asked_again() -> bool:
        process.send(signal.SIGTERM)
        return "stopping at once" in process.output or not process.alive

    eventually(asked_again)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_jobs_finish_and_no_others_start(
    site: Site, jobs: Rowcall, number: signal.Signals
) -> None:
    running = [jobs.enqueue(task, {"name": task}) for task in ("hold", "ahold")]
    with site.worker(concurrency=2) as process:
        for job in running:
            comes_to(jobs, job, "running")
            site.wait_for_line(f"start {job.payload['name']}")
        waiting = jobs.enqueue("note", {"text": "not any more"})
        process.send(number)
        process.wait_for("INFO stopping:")
        site.open("hold")
        site.open("ahold")
        assert process.wait() == 0
        assert "ended" in process.output
        assert "INFO worker" in process.output
        assert "WARNING" not in process.output
    for job in running:
        done = jobs.get(job.id)
        assert (done.status, done.attempt, done.result) == ("succeeded", 1, job.payload["name"])
    left = jobs.get(waiting.id)
    assert (left.status, left.attempt, left.worker) == ("pending", 0, None)
    assert jobs.workers() == []


def test_after_the_grace_period_jobs_are_released_without_using_up_an_attempt(site: Site, jobs: Rowcall) -> None:
    running = {task: jobs.enqueue(task, {"name": task}, max_attempts=1) for task in ("hold", "ahold", "stubborn")}
    with site.worker(concurrency=3, grace=0.1) as process:
        for task in running:
            site.wait_for_line(f"start {task}")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
        assert "ended" in process.output
    assert "cancelled hold" in site.lines
    assert "cancelled ahold" in site.lines
    for job in running.values():
        released = jobs.get(job.id)
        assert (released.status, released.attempt, released.error_code) == ("pending", 0, None)
        assert outcomes(jobs, job) == ["released"]
    assert jobs.workers() == []
    for task in running:
        site.open(task)
    with site.worker() as process:
        for job in running.values():
            assert comes_to(jobs, job, "succeeded").attempt == 1


def test_a_process_asked_to_stop_does_not_replace_itself(site: Site, jobs: Rowcall) -> None:
    """All its slots are held by handlers that do not end; that alone would be a reason to start again."""
    job = jobs.enqueue("stubborn", {"name": "x"}, max_attempts=1)
    with site.worker(concurrency=1, grace=0.1) as process:
        site.wait_for_line("start x")
        process.send(signal.SIGTERM)
        assert process.wait(within=10) == 0
    assert (jobs.get(job.id).status, jobs.get(job.id).attempt) == ("pending", 0)
    assert jobs.workers() == []


def test_a_second_signal_stops_at_once_and_nothing_is_lost(site: Site, jobs: Rowcall) -> None:
    running = {task: jobs.enqueue(task, {"name": task}, max_attempts=1) for task in ("ahold", "stubborn")}
    with site.worker(concurrency=2, grace=600) as process:
        for task in running:
            site.wait_for_line(f"start {task}")
        stop_at_once(process)
        process.wait(within=10)
    for job in running.values():
        released = jobs.get(job.id)
        assert (released.status, released.attempt) == ("pending", 0)
    for task in running:
        site.open(task)
    with site.worker():
        for job in running.values():
            comes_to(jobs, job, "succeeded")


def test_a_second_signal_stops_at_once_though_the_event_loop_is_blocked(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("block_the_loop", {"name": "blocks"}, max_attempts=1)
    with site.worker(concurrency=2, grace=600) as process:
        site.wait_for_line("start blocks")
        stop_at_once(process)
        process.wait(within=10)
    assert jobs.get(job.id).status == "pending"
    assert jobs.get(job.id).attempt == 0


def test_an_idle_worker_process_ends_at_the_first_signal(site: Site, jobs: Rowcall) -> None:
    jobs.migrate()
    with site.worker(grace=600) as process:
        process.send(signal.SIGTERM)
        assert process.wait(within=10) == 0
    assert jobs.workers() == []


def test_a_signal_before_it_is_ready_stops_it_too(site: Site, jobs: Rowcall) -> None:
    jobs.migrate()
    process = site.start_worker(grace=600)
    try:
        eventually(lambda: "SigCgt" in proc_status(process.pid) and catches(process.pid, signal.SIGTERM))
        process.send(signal.SIGTERM)
        assert process.wait(within=10) == 0
    finally:
        process.close()
    assert jobs.workers() == []


def proc_status(pid: int) -> str:
    with open(f"/proc/{pid}/status") as status:
        return status.read()


def catches(pid: int, number: signal.Signals) -> bool:
    (line,) = [line for line in proc_status(pid).splitlines() if line.startswith("SigCgt")]
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


def test_buffered_jobs_are_released_as_if_never_claimed(site: Site, jobs: Rowcall) -> None:
    """Quick jobs make the worker hold some ready; then a slow one comes, and a signal."""
    jobs.migrate()
    quick = [jobs.enqueue("anote", {"text": str(number)}, priority=2) for number in range(400)]
    slow = jobs.enqueue("stubborn", {"name": "slow"}, priority=1)
    behind = [jobs.enqueue("anote", {"text": "behind"}) for _ in range(200)]
    with site.worker(concurrency=1, grace=600) as process:
        site.wait_for_line("start slow")
        process.send(signal.SIGTERM)
        process.wait_for("stopping:")
        eventually(lambda: jobs.stats().by_status["running"] == 1)
        site.open("slow")
        assert process.wait() == 0
    assert jobs.get(slow.id).status == "succeeded"
    assert all(jobs.get(job.id).status == "succeeded" for job in quick)
    for job in behind:
        left = jobs.get(job.id)
        assert (left.status, left.attempt) == ("pending", 0)
        assert outcomes(jobs, job) == []
    assert "note behind" not in site.lines


def test_a_database_that_cannot_be_opened_ends_the_process_with_an_error(site: Site) -> None:
    site.database.write_text("this is no database, but a text that is long enough to look like something else" * 20)
    process = site.start_worker()
    try:
        assert process.wait() == 1
        assert "is not a SQLite database" in process.output
    except subprocess.TimeoutExpired:
        pytest.fail(process.output)
    finally:
        process.close()
