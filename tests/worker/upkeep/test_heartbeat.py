"""Heartbeats come from a separate thread: a worker that is busy or waits is not declared lost."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

from rowcall import Rowcall
from tests.worker.support import Site, ended, some_heartbeats


def test_a_handler_that_blocks_the_event_loop_does_not_look_dead(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("block_the_loop", {"name": "blocks"}, max_attempts=1)
    with site.worker(lease=0.5) as process, site.worker(lease=0.5):
        site.wait_for_line("start blocks")
        some_heartbeats(jobs, 15)
        assert jobs.get(job.id).status == "running"
        assert len(jobs.workers()) == 2
        site.open("blocks")
        done = ended(jobs, job)
        assert (done.status, done.attempt) == ("succeeded", 1)
        assert "lost" not in process.output


def test_no_worker_is_declared_lost_because_another_process_locked_the_database(site: Site, jobs: Rowcall) -> None:
    """No heartbeat can be written for several leases, while all can still be read."""
    held_jobs = [jobs.enqueue("hold", {"name": f"x{number}"}, max_attempts=1) for number in range(2)]
    with (
        site.worker(lease=1, concurrency=1, busy_timeout=0.2) as one,
        site.worker(lease=1, concurrency=1, busy_timeout=0.2) as other,
    ):
        for number in range(2):
            site.wait_for_line(f"start x{number}")
        with closing(sqlite3.connect(site.database, isolation_level=None)) as third:
            third.execute("begin immediate")
            heartbeats = {worker.name: worker.heartbeats for worker in jobs.workers()}
            threading.Event().wait(4)
            assert {worker.name: worker.heartbeats for worker in jobs.workers()} == heartbeats
            third.execute("rollback")
        some_heartbeats(jobs)
        assert {worker.name for worker in jobs.workers()} == set(heartbeats)
        for number, job in enumerate(held_jobs):
            site.open(f"x{number}")
            done = ended(jobs, job)
            assert (done.status, done.attempt) == ("succeeded", 1)
        for process in (one, other):
            assert "declared lost" not in process.output
            assert "is gone" not in process.output
            assert "was silent" not in process.output
