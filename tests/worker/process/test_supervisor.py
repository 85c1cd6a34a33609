"""A supervisor over real processes, with real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Rowcall
from rowcall.base.clock import SystemClock
from rowcall.testing.process import default_signals
from rowcall.worker.pace import SAME_SIGNAL_SECONDS
from rowcall.worker.process.supervisor import Supervisor, pause_seconds, quick_deaths
from tests.support import ForkedProcess, PythonProcess, eventually

APP = """
import os, sys, threading
from pathlib import Path
from rowcall import Rowcall

jobs = Rowcall("sqlite:///queue.db")

if os.environ.get("CHILDREN_FAIL") and "--leash" in sys.argv:
    sys.exit(3)

@jobs.task
def until_told(name: str) -> str:
    Path(f"{name}.started").touch()
    while not Path(f"{name}.go").exists():
        threading.Event().wait(0.01)
    return name

@jobs.task(timeout=0.1)
def endless() -> None:
    threading.Event().wait()
"""


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Rowcall]:
    (tmp_path / "app.py").write_text(APP)
    with Rowcall(tmp_path / "queue.db") as jobs:
        yield jobs


def supervised(folder: Path, *options: str, **env: str) -> PythonProcess:
    arguments = ("-m", "rowcall", "work", "app:jobs", "--processes=2", *options)
    return ForkedProcess(*arguments, cwd=str(folder), env={**os.environ, **env})


def two_workers(queue: Rowcall) -> dict[int, str]:
    """The names of the two workers by their process."""

    def named() -> dict[int, str] | None:
        workers = queue.workers()
        return {worker.pid: worker.name for worker in workers} if len(workers) == 2 else None

    return eventually(named)


def start_job(queue: Rowcall, folder: Path, name: str) -> int:
    job = queue.enqueue("until_told", {"name": name})
    eventually((folder / f"{name}.started").exists)
    return job.id


def both_stopped(process: PythonProcess) -> None:
    eventually(lambda: process.output.count("] stopped") == 2, message=process.output)


def test_pauses_grow_to_a_limit_and_there_is_none_after_a_long_life() -> None:
    assert [pause_seconds(deaths) for deaths in (0, 1, 2, 3, 4, 5, 6, 7, 100_000)] == [
        *(0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0)
    ]


def test_deaths_count_only_when_they_come_soon_after_the_start() -> None:
    deaths, pauses = 0, []
    for lived_seconds in (1.0, 1.0, 9.9, 10.0, 1.0):
        deaths = quick_deaths(deaths, lived_seconds)
        pauses.append(pause_seconds(deaths))
    assert pauses == [1.0, 2.0, 4.0, 0.0, 1.0]


def test_a_reload_waits_for_the_last_child_without_spinning() -> None:
    """The first child has ended, and its successor is overdue, as it starts together with all others."""
    clock = SystemClock()
    script = 'head -c 1 "/dev/fd/$3" > /dev/null; [ "$1" = 1 ] || exec sleep 60'
    supervisor = Supervisor(["sh", "-c", script, "sh"], 2, 30.0, clock, lambda number: [str(number)])
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        eventually(lambda: len(supervisor._alive) == 2)
        supervisor.reload("the code has changed")
        eventually(lambda: len(supervisor._alive) == 1 and supervisor._children[0].start_at is not None)
        supervisor._children[0].start_at = clock.timer()
        assert supervisor._next_in_seconds() > 0
    finally:
        for _ in range(3):  # the third signal kills them
            supervisor._receive(1)
        thread.join()


def test_a_killed_child_is_replaced_and_its_job_runs_again(queue: Rowcall, tmp_path: Path) -> None:
    with supervised(tmp_path) as process:
        workers = two_workers(queue)
        job_id = start_job(queue, tmp_path, "first")
        victim = next(pid for pid, name in workers.items() if name == queue.get(job_id).worker)
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "first.go").touch()
        eventually(lambda: queue.get(job_id).status == "succeeded")
        assert [attempt.status for attempt in queue.attempts(job_id)] == ["lost", "succeeded"]
        replaced = eventually(lambda: new if victim not in (new := two_workers(queue)) else None)
        assert replaced.keys() & workers.keys()
        process.wait_for(f"pid {victim} was ended by SIGKILL; the next one starts in 1 s")
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_children_that_cannot_start_are_tried_again_with_growing_pauses(queue: Rowcall, tmp_path: Path) -> None:
    with supervised(tmp_path, CHILDREN_FAIL="1") as process:
        process.wait_for("ended with exit code 2; the next one starts in 1 s")
        process.wait_for("ended with exit code 2; the next one starts in 2 s")
        process.send(signal.SIGTERM)
        assert process.wait() == 0


def test_sigterm_lets_running_jobs_finish_and_ends_all(queue: Rowcall, tmp_path: Path) -> None:
    with supervised(tmp_path) as process:
        two_workers(queue)
        running = start_job(queue, tmp_path, "running")
        process.send(signal.SIGTERM)
        process.wait_for("stopping 2 worker processes")
        eventually(lambda: process.output.count("] stopped") == 1)
        process.wait_for("1 running job has up to")  # the other worker claims no more, either
        later = queue.enqueue("until_told", {"name": "later"})
        (tmp_path / "running.go").touch()
        assert process.wait() == 0
        assert queue.get(running).status == "succeeded"
        assert queue.get(later.id).attempt == 0
        assert queue.workers() == []


def test_a_signal_sent_twice_at_once_counts_once_and_a_second_one_stops_at_once(queue: Rowcall, tmp_path: Path) -> None:
    with supervised(tmp_path) as process:
        two_workers(queue)
        running = start_job(queue, tmp_path, "running")
        process.send(signal.SIGTERM)
        process.send(signal.SIGTERM)
        process.wait_for("stopping 2 worker processes")
        eventually(lambda: process.output.count("] stopped") == 1)
        assert "stopping at once" not in process.output
        told_at = time.monotonic()
        eventually(lambda: time.monotonic() > told_at + SAME_SIGNAL_SECONDS)
        process.send(signal.SIGTERM)
        process.wait_for("stopping at once")
        assert process.wait() == 0
        job = queue.get(running)
        assert (job.status, job.attempt) == ("pending", 0)


def test_ctrl_c_reaches_the_children_only_through_the_supervisor(queue: Rowcall, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rowcall", "work", "app:jobs", "--processes=2"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stderr=log, process_group=0, preexec_fn=default_signals())
    try:
        two_workers(queue)
        running = start_job(queue, tmp_path, "running")
        os.killpg(process.pid, signal.SIGINT)
        eventually(lambda: (tmp_path / "log").read_text().count("] stopped") == 1)
        (tmp_path / "running.go").touch()
        assert process.wait(30) == 0
        assert queue.get(running).status == "succeeded"
    finally:
        process.kill()
        process.wait()


def test_children_of_a_killed_supervisor_stop_gracefully(queue: Rowcall, tmp_path: Path) -> None:
    with supervised(tmp_path) as process:
        two_workers(queue)
        running = start_job(queue, tmp_path, "running")
        process.kill()
        eventually(lambda: "the supervisor is gone" in process.output)
        (tmp_path / "running.go").touch()
        both_stopped(process)
        assert queue.get(running).status == "succeeded"
        assert queue.workers() == []


def test_a_child_that_replaced_itself_is_still_on_the_leash(queue: Rowcall, tmp_path: Path) -> None:
    with supervised(tmp_path, "--concurrency=1") as process:
        before = two_workers(queue)
        endless = queue.enqueue("endless", max_attempts=1)
        eventually(lambda: queue.get(endless.id).status == "failed")
        lost = queue.get(endless.id).worker
        pid = next(pid for pid, name in before.items() if name == lost)
        after = eventually(lambda: now if (now := two_workers(queue)).get(pid, lost) != lost else None)
        assert after.keys() == before.keys()
        process.kill()
        both_stopped(process)
        assert queue.workers() == []


def test_a_child_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from rowcall.base.clock import SystemClock;"
        "from rowcall.worker.process import supervisor; supervisor.BEYOND_GRACE_SECONDS = 0.1;"
        "deaf = [sys.executable, '-c', 'print(\"deaf\", flush=True); import threading; threading.Event().wait()'];"
        "sys.exit(3 if not supervisor.Supervisor(deaf, 2, 0.1, SystemClock()).run() else 0)"
    )
    with ForkedProcess("-c", program) as process:
        eventually(lambda: process.output.count("deaf") == 2)
        process.send(signal.SIGTERM)
        assert process.wait() == 3


def test_a_program_that_cannot_be_started_is_tried_again() -> None:
    program = (
        "import sys, logging; logging.basicConfig(); from rowcall.base.clock import SystemClock;"
        "from rowcall.worker.process.supervisor import Supervisor;"
        "sys.exit(0 if Supervisor(['/no/such/program'], 1, 1.0, SystemClock()).run() else 3)"
    )
    with ForkedProcess("-c", program) as process:
        process.wait_for("could not start worker process 1: ")
        process.wait_for("the next one starts in 2 s")
        process.send(signal.SIGTERM)
        assert process.wait() == 0
