"""Graphs under fire: workers are killed all the time, and still each job runs after all that it waits for."""

from __future__ import annotations

import os
import random
import threading
import time

import pytest

from rowcall import Rowcall
from rowcall.testing.process import PythonProcess
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.graphs import GraphHistory, Grower, declare_vertices
from tests.conformance.notes import Notes
from tests.conformance.store import Store

GIVEN = os.environ.get("ROWCALL_TEST_GRAPHS")  # a number: this many graphs of up to 200 jobs
GRAPHS, MOST_JOBS = (int(GIVEN), 200) if GIVEN else (20, 60)


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(60 + 2 * GRAPHS)
class TestGraphStorm:
    """Four workers, one of them killed every 500 ms, while graphs are written and run."""

    WORKERS = 4
    EVERY_SECONDS = 0.5
    MOST_UNFINISHED = 4000

    def test_every_job_runs_after_its_blockers_and_none_is_forgotten_or_settled_twice(
        self, store: Store, open_queue: OpenQueue, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = open_queue()
        grower = Grower(jobs, declare_vertices(jobs, notes), most_jobs=MOST_JOBS, seed=6)
        killed = self._storm(jobs, grower, start_program)
        assert killed, "no process was killed"
        assert jobs.stats().by_status["succeeded"] == jobs.stats().total == grower.jobs_in_all
        GraphHistory(store, notes).check(grower.jobs_in_all, killed)

    def _storm(self, jobs: Rowcall, grower: Grower, start_program: StartProgram) -> set[int]:
        """Return the ids of the processes that were killed."""
        chance = random.Random(7)
        grower.write_one()
        workers = [self._start(start_program) for _ in range(self.WORKERS)]
        killed: set[int] = set()
        while not self._through(jobs, grower):
            registered = {worker.pid for worker in jobs.workers()}
            ready = [worker for worker in workers if worker.pid in registered]
            if len(ready) > 1:  # on a slow machine, let one of them get going
                victim = chance.choice(ready)
                victim.kill()
                killed.add(victim.pid)
                workers[workers.index(victim)] = self._start(start_program)
        return killed

    def _start(self, start_program: StartProgram) -> PythonProcess:
        return start_program("work", "--concurrency", "10")

    def _through(self, jobs: Rowcall, grower: Grower) -> bool:
        """Write graphs until the next process is to be killed. Return whether all are written and done."""
        deadline = time.monotonic() + self.EVERY_SECONDS
        unfinished = grower.jobs_in_all - _succeeded(jobs)
        before = grower.jobs_in_all
        while grower.graphs < GRAPHS and unfinished + grower.jobs_in_all - before < self.MOST_UNFINISHED:
            grower.write_one()
            if time.monotonic() > deadline:
                return False
        if not unfinished and grower.jobs_in_all == before:
            return True
        threading.Event().wait(max(0.0, deadline - time.monotonic()))
        return False


def _succeeded(jobs: Rowcall) -> int:
    return jobs.stats().by_status["succeeded"]
