"""The server is down for a while: workers wait for it, log that once, and continue where they were."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from rowcall import Job, Rowcall, StoreUnavailable
from rowcall.testing import eventually
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.private_server import StopMode
from rowcall.testing.process import PythonProcess
from rowcall.worker import outage
from rowcall.worker.pacing.postgres_waiter import PostgresWaiter
from tests.postgres.support import OUT_OF_REACH, THERE_AGAIN, PostgresSite, times_said
from tests.postgres.wire import Wire
from tests.worker.support import ended, outcomes, some_heartbeats

pytestmark = [pytest.mark.crash, pytest.mark.slow]

LEASE_SECONDS = 1.0
OUTAGE_SECONDS = 3.0  # three leases
LATE_LEASE_SECONDS = 5.0
LONG_OUTAGE_SECONDS = float(os.environ.get("ROWCALL_TEST_OUTAGE_SECONDS", "17"))  # longer than the default lease


@contextlib.contextmanager
def down(server: PostgresServer, mode: StopMode, seconds: float) -> Iterator[None]:
    """The server is away for that long at least, and for as long as the block lasts."""
    server.stop(mode)
    until = time.monotonic() + seconds
    yield
    threading.Event().wait(max(0.0, until - time.monotonic()))
    server.start()


def enqueue_held(jobs: Rowcall) -> list[Job]:
    """Four for each of two workers: of each kind, one that ends during the outage and one that ends after it."""
    return [
        jobs.enqueue(task, {"name": f"{task} {end} {number}"}, max_attempts=1)
        for number in range(2)
        for task in ("hold", "ahold")
        for end in ("during", "after")
    ]


def check_two_workers_through(
    site: PostgresSite, server: PostgresServer, mode: StopMode, seconds: float, **worker: object
) -> None:
    jobs = site.jobs
    with site.worker(concurrency=4, **worker) as one, site.worker(concurrency=4, **worker) as other:
        names = {worker.name for worker in jobs.workers()}
        held = enqueue_held(jobs)
        for job in held:
            site.wait_for_line(f"start {job.payload['name']}")
        assert {jobs.get(job.id).worker for job in held} == names
        with down(server, mode, seconds):
            for process in (one, other):
                process.wait_for(OUT_OF_REACH)
            open_gates(site, held, "during")
        for process in (one, other):
            process.wait_for(THERE_AGAIN)
        assert ended(jobs, jobs.enqueue("note", {"text": "afterwards"})).attempt == 1
        open_gates(site, held, "after")
        for job in held:
            done = ended(jobs, job)
            assert (done.status, done.attempt) == ("succeeded", 1), (one.output, other.output)
            assert outcomes(jobs, job) == ["succeeded"]
            assert site.lines.count(f"start {job.payload['name']}") == 1
        some_heartbeats(jobs, 1)
        assert {worker.name for worker in jobs.workers()} == names
        for process in (one, other):
            said = times_said(process, OUT_OF_REACH), times_said(process, THERE_AGAIN)
            assert said == (1, 1), process.output
            assert "is gone" not in process.output
            assert "was silent" not in process.output
            assert "declared lost" not in process.output
            assert len(process.output.splitlines()) == 2, process.output


def open_gates(site: PostgresSite, held: list[Job], end: str) -> None:
    names = [str(job.payload["name"]) for job in held if end in str(job.payload["name"])]
    for name in names:
        site.open(name)
    for name in names:
        site.wait_for_line(f"end {name}")


def test_what_ran_through_it_is_settled_afterwards_and_no_worker_is_declared_lost(
    site: PostgresSite, server: PostgresServer
) -> None:
    check_two_workers_through(site, server, "immediate", OUTAGE_SECONDS, lease=LEASE_SECONDS)


def test_an_outage_longer_than_the_default_lease(site: PostgresSite, server: PostgresServer) -> None:
    check_two_workers_through(site, server, "fast", LONG_OUTAGE_SECONDS)


def test_one_that_comes_back_later_than_the_others_is_not_taken_for_lost(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer
) -> None:
    """Its silence during the outage does not count: no heartbeat could have been written."""
    job = jobs.enqueue("hold", {"name": "x"}, max_attempts=1)
    with Wire(site.url) as wire, site.worker(lease=LATE_LEASE_SECONDS, url=wire.url) as late:
        site.wait_for_line("start x")
        with site.worker(lease=2) as early:
            names = {worker.name for worker in jobs.workers()}
            wire.freeze()
            wait_for_heartbeats(jobs, early, 3)  # more than a second, in which it sees the other's last heartbeat
            with down(server, "immediate", LATE_LEASE_SECONDS):
                pass
            wait_for_heartbeats(jobs, early, 5)  # two seconds, in which it looks again, and hears nothing
            wire.thaw()
            wait_for_heartbeats(jobs, late, 2)
            assert {worker.name for worker in jobs.workers()} == names
            site.open("x")
            assert (ended(jobs, job).status, jobs.get(job.id).attempt) == ("succeeded", 1)
            assert "is gone" not in early.output
            assert "was silent" not in early.output
            assert "declared lost" not in late.output


def wait_for_heartbeats(jobs: Rowcall, process: PythonProcess, count: int) -> None:
    def heartbeats() -> int:
        return sum(worker.heartbeats for worker in jobs.workers() if worker.pid == process.pid)

    before = heartbeats()
    eventually(lambda: heartbeats() >= before + count)


def test_calls_that_failed_during_it_do_not_hold_up_those_after_it(url: str, server: PostgresServer) -> None:
    with Rowcall(url, busy_timeout=2) as jobs:
        jobs.migrate()
        with down(server, "immediate", 4.0):
            for call in (jobs.stats, lambda: jobs.enqueue("task"), lambda: jobs.claim("me")):
                with pytest.raises(StoreUnavailable, match="cannot connect"):
                    call()
        assert jobs.stats().total == 0
        assert len(jobs.claim("me")) == 0
        assert asyncio.run(jobs.aenqueue("task")).id


def test_the_pauses_grow_and_differ(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    pause = PostgresWaiter.pause

    def noted_pause(waiter: PostgresWaiter, seconds: float) -> None:
        pauses.append(seconds)
        pause(waiter, seconds)

    monkeypatch.setattr(outage, "LAST_OUTAGE_SECONDS", 0.4)
    monkeypatch.setattr(PostgresWaiter, "pause", noted_pause)
    with jobs.worker(lease=LEASE_SECONDS):
        server.stop()
        eventually(lambda: len(pauses) >= 6)
        server.start()
        assert ended(jobs, jobs.enqueue("unknown", expires_in=0.1)).error_code == "EXPIRED:NOT_STARTED"
    full = [0.05, 0.1, 0.2, 0.4, 0.4, 0.4]
    shares = [seconds / whole for seconds, whole in zip(pauses, full, strict=False)]
    assert all(0.5 <= share <= 1.0 for share in shares), pauses
    assert len(set(shares)) == len(shares), "a fleet that was cut off together would come back together"


def test_an_idle_worker_can_be_stopped_meanwhile(site: PostgresSite, jobs: Rowcall, server: PostgresServer) -> None:
    with site.worker(lease=LEASE_SECONDS) as worker:
        server.stop("immediate")
        worker.wait_for(OUT_OF_REACH)
        stop(worker)
    server.start()
    with site.worker(lease=LEASE_SECONDS):
        eventually(lambda: len(jobs.workers()) == 1, message="the end of the row it left behind")


def test_what_a_worker_could_not_settle_before_it_stopped_runs_again(
    site: PostgresSite, jobs: Rowcall, server: PostgresServer
) -> None:
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker(lease=LEASE_SECONDS, grace=0.2) as worker:
        site.wait_for_line("start x")
        server.stop("immediate")
        site.open("x")
        site.wait_for_line("end x")
        stop(worker)
        assert "other workers will recover" in worker.output
    server.start()
    with site.worker(lease=LEASE_SECONDS):
        assert ended(jobs, job).attempt == 2
    assert outcomes(jobs, job) == ["lost", "succeeded"]


def stop(worker: PythonProcess) -> None:
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0, worker.output
