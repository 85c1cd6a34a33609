"""A worker that is stopped for longer than its lease, and then continued."""

from __future__ import annotations

import signal

import pytest

from rowcall import Job, Rowcall
from rowcall.testing import eventually
from tests.worker.support import Site, comes_to, ended, outcomes

pytestmark = pytest.mark.crash


def enqueue_both(jobs: Rowcall) -> list[Job]:
    return [jobs.enqueue(task, {"name": task}) for task in ("hold", "ahold")]


def names_of(jobs: Rowcall, pid: int) -> set[str]:
    return {worker.name for worker in jobs.workers() if worker.pid == pid}


def test_it_settles_nothing_that_others_have_finished_meanwhile(site: Site, jobs: Rowcall) -> None:
    made = enqueue_both(jobs)
    with site.worker(lease=1, concurrency=2) as stopped:
        for job in made:
            site.wait_for_line(f"start {job.type}")
        (first_name,) = names_of(jobs, stopped.pid)
        site.stop(stopped)
        with site.worker(lease=1, concurrency=2) as other:
            for job in made:
                site.wait_for_line(f"start {job.type}", times=2)
                site.open(job.type)
            finished = [ended(jobs, job) for job in made]
            stopped.send(signal.SIGCONT)
            eventually(lambda: names_of(jobs, stopped.pid) not in (set(), {first_name}), message="a new name")
            stopped.wait_for("was declared lost")
            for job in made:
                stopped.wait_for(f"job {job.id} ")
            for job, before in zip(made, finished, strict=True):
                after = jobs.get(job.id)
                assert after == before
                assert (after.status, after.attempt) == ("succeeded", 2)
                assert f":{other.pid}:" in str(after.worker)
                assert outcomes(jobs, job) == ["lost", "succeeded"]
        next_job = ended(jobs, jobs.enqueue("note", {"text": "next"}))
        assert next_job.status == "succeeded"
        assert next_job.worker in names_of(jobs, stopped.pid)


def test_its_handlers_are_stopped_while_others_run_the_jobs(site: Site, jobs: Rowcall) -> None:
    made = enqueue_both(jobs)
    with site.worker(lease=1, concurrency=2) as stopped:
        for job in made:
            site.wait_for_line(f"start {job.type}")
        site.stop(stopped)
        with site.worker(lease=1, concurrency=2) as other:
            for job in made:
                site.wait_for_line(f"start {job.type}", times=2)
            stopped.send(signal.SIGCONT)
            for job in made:
                site.wait_for_line(f"cancelled {job.type}")
            for job in made:
                running = comes_to(jobs, job, "running")
                assert f":{other.pid}:" in str(running.worker)
                site.open(job.type)
            for job in made:
                done = ended(jobs, job)
                assert (done.status, done.attempt) == ("succeeded", 2)
                assert outcomes(jobs, job) == ["lost", "succeeded"]
            assert len(jobs.workers()) == 2


def test_a_stop_shorter_than_the_lease_is_nothing(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("hold", {"name": "x"}, max_attempts=1)
    with site.worker(lease=600) as stopped, site.worker(lease=0.5) as other:
        site.wait_for_line("start x")
        owner = stopped if f":{stopped.pid}:" in str(jobs.get(job.id).worker) else other
        site.stop(stopped)
        (name,) = names_of(jobs, other.pid)

        def heartbeats() -> int:
            return next(worker.heartbeats for worker in jobs.workers() if worker.name == name)

        before = heartbeats()
        eventually(lambda: heartbeats() > before + 10)
        assert len(jobs.workers()) == 2
        stopped.send(signal.SIGCONT)
        site.open("x")
        done = ended(jobs, job)
        assert (done.status, done.attempt) == ("succeeded", 1)
        assert f":{owner.pid}:" in str(done.worker)


def test_a_stopped_worker_does_not_stop_the_world(site: Site, jobs: Rowcall) -> None:
    """It may have been stopped at any point, even with the write gate locked; others continue, if more slowly."""
    for number in range(400):
        jobs.enqueue("anote", {"text": str(number)})
    with site.worker(lease=1, concurrency=4) as stopped:
        eventually(lambda: len(site.lines) > 50)
        site.stop(stopped)
        with site.worker(lease=1, concurrency=4):
            eventually(lambda: jobs.stats().by_status["succeeded"] == 400, within=30)
        stopped.send(signal.SIGCONT)
        after = jobs.enqueue("note", {"text": "after"})
        assert ended(jobs, after).status == "succeeded"
    assert all(jobs.get(job_id).status == "succeeded" for job_id in range(1, 401))
