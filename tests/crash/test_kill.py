"""Worker processes are killed all the time, and still every job is done, and every attempt is accounted for."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from typing import NamedTuple

import pytest

from rowcall import Rowcall
from rowcall.testing.process import PythonProcess
from tests.worker.program import declare_counted
from tests.worker.support import FINISHED, Site, plain_rows

pytestmark = [pytest.mark.crash, pytest.mark.slow]

JOBS = int(os.environ.get("ROWCALL_TEST_KILL_JOBS", "5000"))
WORKERS = 4
KILL_EVERY_SECONDS = 0.3
PATIENCE_SECONDS = 90


class Began(NamedTuple):
    """A line that a handler wrote as the first thing it did."""

    job_id: int
    attempt: int
    pid: int


class Tried(NamedTuple):
    """An attempt as stored in the database."""

    job_id: int
    attempt: int
    status: str
    pid: int


def work_under_fire(site: Site, jobs: Rowcall, seed: int) -> set[int]:
    """Four workers, one of them killed and replaced every 300 ms until all is done. Return the killed pids."""
    chance = random.Random(seed)
    killed: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    workers = [site.start_worker(concurrency=50) for _ in range(WORKERS)]
    try:
        while unfinished(jobs):
            threading.Event().wait(KILL_EVERY_SECONDS)
            victim = chance.randrange(WORKERS)
            killed.add(workers[victim].pid)
            kill(workers[victim])
            workers[victim] = site.start_worker(concurrency=50)
            assert time.monotonic() < deadline, jobs.stats()
    finally:
        for worker in workers:
            worker.close()
    return killed


def kill(worker: PythonProcess) -> None:
    assert worker.alive, worker.output
    worker.close()


def unfinished(jobs: Rowcall) -> int:
    return sum(count for status, count in jobs.stats().by_status.items() if status not in FINISHED)


def began(site: Site) -> list[Began]:
    return [Began(*map(int, line.split())) for line in site.lines]


def tried(site: Site) -> list[Tried]:
    rows = plain_rows(
        site.database, "select job_id, attempt, status, worker from rowcall_attempts order by job_id, seq"
    )
    return [
        Tried(int(str(job)), int(str(attempt)), str(status), int(str(worker).split(":")[1]))
        for job, attempt, status, worker in rows
    ]


def check_accounts(site: Site, killed: set[int]) -> dict[int, list[Tried]]:
    lines, attempts = began(site), tried(site)
    by_job: dict[int, list[Tried]] = defaultdict(list)
    for one in attempts:
        by_job[one.job_id].append(one)
    assert len(by_job) == JOBS
    for job_id, history in by_job.items():
        assert [one.attempt for one in history] == list(range(1, len(history) + 1)), (job_id, history)
        assert {one.status for one in history[:-1]} <= {"lost"}, (job_id, history)

    twice = [pair for pair, times in Counter((line.job_id, line.attempt) for line in lines).items() if times > 1]
    assert twice == []
    known = {(one.job_id, one.attempt): one for one in attempts}
    for line in lines:
        assert known[line.job_id, line.attempt].pid == line.pid, line
    seen = set(lines)
    for one in attempts:
        if one.status == "lost":
            assert one.pid in killed, one
        else:
            assert one.status == "succeeded", one
            assert Began(one.job_id, one.attempt, one.pid) in seen, one
    return by_job


def test_every_job_succeeds_however_many_workers_are_killed(site: Site, jobs: Rowcall) -> None:
    declare_counted(jobs, site).using(max_attempts=50).enqueue_many([{}] * JOBS)
    killed = work_under_fire(site, jobs, seed=1)
    assert jobs.stats().by_status["succeeded"] == JOBS
    histories = check_accounts(site, killed)
    assert all(history[-1].status == "succeeded" for history in histories.values())
    assert any(len(history) > 1 for history in histories.values()), "nothing was killed while it ran"


def test_no_job_fails_but_those_that_died_with_five_workers(site: Site, jobs: Rowcall) -> None:
    declare_counted(jobs, site).using(max_attempts=5).enqueue_many([{}] * JOBS)
    killed = work_under_fire(site, jobs, seed=2)
    counts = jobs.stats().by_status
    assert counts["succeeded"] + counts["failed"] == JOBS
    histories = check_accounts(site, killed)
    began_times = Counter(line.job_id for line in began(site))
    failed = {job_id for job_id, history in histories.items() if history[-1].status == "lost"}
    assert len(failed) == counts["failed"]
    for job_id in failed:
        assert (len(histories[job_id]), began_times[job_id]) == (5, 5)
