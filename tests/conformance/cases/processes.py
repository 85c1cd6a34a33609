"""Several processes on one database."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from rowcall import Job, Rowcall, Status
from rowcall.testing.deadline import eventually
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes


@pytest.mark.concurrency
class TestProcesses:
    @pytest.fixture
    def real(self, open_queue: OpenQueue) -> Rowcall:
        jobs = open_queue()
        jobs.migrate()
        return jobs

    def test_four_claimers_never_get_the_same_job(
        self, real: Rowcall, start_program: StartProgram, notes: Notes
    ) -> None:
        ids = [real.enqueue("quick").id for _ in range(300)]
        programs = [start_program("claim") for _ in range(4)]
        assert [program.wait() for program in programs] == [0] * 4, [program.output for program in programs]
        assert Counter(note.job_id for note in notes.read("started")) == Counter(ids)
        assert real.stats().by_status["succeeded"] == 300

    def test_workers_run_each_job_once_while_others_enqueue(
        self, real: Rowcall, start_program: StartProgram, notes: Notes
    ) -> None:
        workers = [start_program("work") for _ in range(2)]
        producers = [start_program("enqueue", "100") for _ in range(2)]
        assert [program.wait() for program in producers] == [0] * 2, [program.output for program in producers]
        eventually(lambda: real.stats().by_status["succeeded"] == 200, message="200 jobs succeeded")
        assert set(Counter(note.job_id for note in notes.read("started")).values()) == {1}
        assert len(notes.read("started")) == len(notes.read("ended")) == 200
        eventually(lambda: len(real.workers()) == 2, message="both workers, of which one may have started late")
        for worker in workers:
            worker.send(signal.SIGTERM)
        assert [worker.wait() for worker in workers] == [0, 0], [worker.output for worker in workers]
        assert real.workers() == []

    def test_an_idle_worker_elsewhere_picks_up_what_is_enqueued_here(
        self, real: Rowcall, start_program: StartProgram, notes: Notes
    ) -> None:
        start_program("work")
        eventually(real.workers, message="a worker")
        job = real.enqueue("quick")
        eventually(lambda: real.get(job.id).status is Status.SUCCEEDED, message="the job succeeded")
        delayed = real.enqueue("quick_async", delay=0.2)
        done = eventually(lambda: _finished(real, delayed.id), message="the delayed job succeeded")
        assert done.claimed_at is not None
        assert done.claimed_at >= done.run_at

    def test_sigterm_lets_what_runs_finish_and_starts_nothing_more(
        self, real: Rowcall, start_program: StartProgram, notes: Notes, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        ids = [real.enqueue("held", {"until": str(gate)}).id for _ in range(4)]
        worker = start_program("work", "--concurrency", "2")
        eventually(lambda: len(notes.read("started")) == 2, message="two started")
        worker.send(signal.SIGTERM)
        worker.wait_for("stopping")
        eventually(lambda: len(real.list(status="running").jobs) == 2, message="the buffered jobs are released")
        gate.touch()
        assert worker.wait() == 0, worker.output
        assert [real.get(job_id).status for job_id in ids] == [Status.SUCCEEDED] * 2 + [Status.PENDING] * 2
        assert [real.get(job_id).attempt for job_id in ids] == [1, 1, 0, 0]
        assert len(notes.read("started")) == 2


def _finished(jobs: Rowcall, job_id: int) -> Job | None:
    job = jobs.get(job_id)
    return job if job.status is Status.SUCCEEDED else None
