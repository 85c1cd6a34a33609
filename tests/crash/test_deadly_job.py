"""A job that kills its worker fails alone, also where the liveness file is lost with the worker (a new container)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from rowcall import Rowcall, Status, Task
from rowcall.app import queue_of
from rowcall.drivers.liveness_file import files_in
from rowcall.testing.deadline import eventually
from rowcall.testing.process import PythonProcess

pytestmark = [pytest.mark.crash, pytest.mark.slow]

LEASE_SECONDS = 1.0
NEIGHBOURS = 1200
MOST_DEATHS = 12
LEAST_BUFFERED = 100  # a quiet machine has 1,000


def declared(url: str) -> tuple[Rowcall, Task[[], None]]:
    jobs = Rowcall(url)

    @jobs.task
    def harmless() -> None: ...

    @jobs.task(max_attempts=2)
    def deadly() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    return jobs, harmless


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_it_fails_alone(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:///{tmp_path}/app.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    jobs, harmless = declared(url)
    harmless.enqueue_many([{}] * NEIGHBOURS)
    deadly = jobs.enqueue("deadly")
    harmless.enqueue_many([{}] * NEIGHBOURS)
    deaths = most_claimed = 0
    while jobs.get(deadly).status is not Status.FAILED or not all_ended(jobs):
        with PythonProcess("-m", "tests.crash.test_deadly_job", url, cwd=str(Path(__file__).parents[2])) as worker:
            eventually(lambda: not worker.alive or all_ended(jobs), within=60, message="a death, or the end")
            deaths += not worker.alive
        most_claimed = max(most_claimed, jobs.stats().by_status["running"])
        for path in files_in(queue_of(jobs).database.side_folder):
            os.unlink(path)
        assert deaths <= MOST_DEATHS, "it kills one worker after the other"
    assert deaths >= 2
    assert most_claimed > LEAST_BUFFERED, "no worker died with a long buffer"
    assert jobs.get(deadly).error_code == "WORKER:LOST"
    counts = jobs.stats().by_status
    assert (counts["succeeded"], counts["failed"]) == (2 * NEIGHBOURS, 1)
    jobs.close()


def all_ended(jobs: Rowcall) -> bool:
    counts = jobs.stats().by_status
    return counts["succeeded"] + counts["failed"] == 2 * NEIGHBOURS + 1


if __name__ == "__main__":
    declared(sys.argv[1])[0].work(concurrency=4, lease=LEASE_SECONDS)
