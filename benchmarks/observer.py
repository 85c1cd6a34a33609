"""Looks at the jobs' table from outside, as cheaply as can be."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.database import connect
from benchmarks.workers import WorkerProcess

LONGEST_WAIT_SECONDS = 180.0
LOOK_EVERY_SECONDS = 0.005

# earlier revisions, which are compared with, write that a job is running
UNFINISHED = """
select 1 from rowcall_job where id between ? and ? and status in ('blocked', 'scheduled', 'pending', 'running')"""


class Observer:
    def __init__(self, url: str) -> None:
        self._database = connect(url)

    def wait_until_settled(
        self, ids: range, worker: WorkerProcess, *, each_look: Callable[[], None] = lambda: None
    ) -> float:
        """Wait until all these jobs are settled. Return the wall-clock time, in seconds, of the look that saw it."""
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        last = range(ids[-1], ids[-1] + 1)
        # mostly a look at the last row alone: the jobs before it are nearly always done by then
        while True:
            if self._settled(last):
                looked_at = time.time()
                if self._settled(ids):
                    return looked_at
            worker.check()
            each_look()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(ids):,} jobs were not done within {LONGEST_WAIT_SECONDS:.0f} s")
            time.sleep(LOOK_EVERY_SECONDS)

    def wait_until_written(self, job_id: int, worker: WorkerProcess) -> None:
        """Wait until there is such a job."""
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while not self._database.rows("select 1 from rowcall_job where id = ?", job_id):
            worker.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job_id} was not written within {LONGEST_WAIT_SECONDS:.0f} s")
            time.sleep(LOOK_EVERY_SECONDS)

    def first_claim(self, ids: range) -> float:
        """When the first of them was claimed, in seconds since 1970."""
        claimed_at = self._database.seconds("min(claimed_at)")
        return float(self._one(f"select {claimed_at} from rowcall_job where id between ? and ?", ids[0], ids[-1]))

    def succeeded(self, ids: range) -> int:
        """Return how many jobs have these ids. A rate counts only if every job succeeded, at its first attempt.

        MariaDB leaves ids out.
        """
        query = "select count(*) from rowcall_job where id between ? and ?"
        jobs = self._one(query, ids[0], ids[-1])
        if failed := jobs - self._one(f"{query} and status = 'succeeded' and attempt = 1", ids[0], ids[-1]):
            raise RuntimeError(f"{failed:,} of {jobs:,} jobs did not succeed at once")
        return jobs

    def waiting(self) -> int:
        """How many jobs may run now."""
        return self._one("select count(*) from rowcall_ready")

    def wait_for_workers(self, count: int, worker: WorkerProcess) -> None:
        """Wait until this many workers are registered."""
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        while self._one("select count(*) from rowcall_worker") < count:
            worker.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} workers did not register within {LONGEST_WAIT_SECONDS:.0f} s")
            time.sleep(LOOK_EVERY_SECONDS)

    def settle_down(self) -> None:
        self._database.settle_down()

    def close(self) -> None:
        self._database.close()

    def _settled(self, ids: range) -> bool:
        return not self._database.rows(UNFINISHED + " limit 1", ids[0], ids[-1])

    def _one(self, query: str, *parameters: object) -> int:
        value: int = self._database.rows(query, *parameters)[0][0]
        return value
