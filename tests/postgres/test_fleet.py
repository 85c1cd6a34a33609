"""Workers on many hosts: who is lost, who only seems so, and what those do who were taken for lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowcall import Job, Rowcall
from rowcall.app import queue_of
from rowcall.drivers.postgres import connection
from rowcall.testing import eventually
from rowcall.testing.process import PythonProcess
from rowcall.worker.service import Background, Stopping, never
from rowcall.worker.upkeep.recovery import Recovery
from tests.postgres.support import PostgresSite, ask, times_said
from tests.postgres.wire import CLAIM, Wire
from tests.worker.program import declare
from tests.worker.support import MovedClock, comes_to, ended, outcomes, some_heartbeats

pytestmark = [pytest.mark.crash, pytest.mark.slow]

HOUR = 3600.0
LEASE_SECONDS = 1.0
DECLARED_LOST = "was declared lost"
SILENT_FOR_LONG = f"""
    select count(*)::int from rowcall_worker
    where heartbeat_at < clock_timestamp() - interval '{2 * LEASE_SECONDS} seconds'
"""


@pytest.fixture
def wire(site: PostgresSite) -> Iterator[Wire]:
    with Wire(site.url) as wire:
        yield wire


def enqueue_held(jobs: Rowcall) -> list[Job]:
    """One for a thread, and one for the event loop."""
    return [jobs.enqueue(task, {"name": task}) for task in ("hold", "ahold")]


def started(site: PostgresSite, held: list[Job], *, times: int = 1) -> None:
    for job in held:
        site.wait_for_line(f"start {job.type}", times=times)


def check_handlers_stop_and_jobs_are_done(
    site: PostgresSite, held: list[Job], former: PythonProcess, other: PythonProcess
) -> None:
    """The one that was taken for lost is back, while the other runs its jobs."""
    for job in held:
        site.wait_for_line(f"cancelled {job.type}")
    former.wait_for(DECLARED_LOST)
    for job in held:
        assert f":{other.pid}:" in str(comes_to(site.jobs, job, "running").worker)
        site.open(job.type)
    for job in held:
        done = ended(site.jobs, job)
        assert (done.status, done.attempt) == ("succeeded", 2)
        assert outcomes(site.jobs, job) == ["lost", "succeeded"]
        assert site.lines.count(f"end {job.type}") == 1
    # it logs that before it has registered again
    eventually(lambda: {worker.pid for worker in site.jobs.workers()} == {former.pid, other.pid})
    assert times_said(former, DECLARED_LOST) == 1


def test_one_that_was_stopped_for_longer_than_its_lease_stops_its_handlers(site: PostgresSite, jobs: Rowcall) -> None:
    held = enqueue_held(jobs)
    with site.worker(lease=LEASE_SECONDS) as stopped:
        started(site, held)
        site.stop(stopped)
        with site.worker(lease=LEASE_SECONDS) as other:
            started(site, held, times=2)
            stopped.send(signal.SIGCONT)
            check_handlers_stop_and_jobs_are_done(site, held, stopped, other)


def test_one_that_was_cut_off_alone_stops_its_handlers_when_it_is_back(
    site: PostgresSite, jobs: Rowcall, wire: Wire
) -> None:
    held = enqueue_held(jobs)
    with site.worker(lease=LEASE_SECONDS, url=wire.url) as alone:
        started(site, held)
        wire.freeze()
        with site.worker(lease=LEASE_SECONDS) as other:
            started(site, held, times=2)
            wire.thaw()
            check_handlers_stop_and_jobs_are_done(site, held, alone, other)


def test_one_that_was_cut_off_in_the_middle_of_a_claim_does_not_keep_the_job(
    site: PostgresSite, jobs: Rowcall, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the server it looks like a host without power: its transaction stays open, with the job's row locked."""
    monkeypatch.setattr(connection, "LONGEST_SILENCE_SECONDS", 1)
    with Rowcall(wire.url) as cut_off:
        declare(cut_off, site)
        job = jobs.enqueue("note", {"text": "locked"})
        frozen = wire.freeze_after(CLAIM)
        with cut_off.worker(lease=LEASE_SECONDS):
            try:
                assert frozen.wait(20)
                with site.worker(lease=LEASE_SECONDS) as other:
                    assert f":{other.pid}:" in str(ended(jobs, job).worker)
            finally:
                wire.thaw()
    assert site.lines == ["note locked"]


def test_all_that_were_stopped_together_continue_as_if_nothing_had_been(site: PostgresSite, jobs: Rowcall) -> None:
    """A laptop that was shut for the night."""
    tasks = ("hold", "ahold", "hold", "ahold")
    held = [jobs.enqueue(task, {"name": str(number)}, max_attempts=1) for number, task in enumerate(tasks)]
    with (
        site.worker(lease=LEASE_SECONDS, concurrency=2) as one,
        site.worker(lease=LEASE_SECONDS, concurrency=2) as other,
    ):
        for job in held:
            site.wait_for_line(f"start {job.payload['name']}")
        names = {worker.name for worker in jobs.workers()}
        workers = (one, other)
        for worker in workers:
            site.stop(worker)
        eventually(lambda: ask(site.url, SILENT_FOR_LONG) == [(2,)], message="the end of both leases")
        for worker in workers:
            worker.send(signal.SIGCONT)
        some_heartbeats(jobs, 10)
        assert {worker.name for worker in jobs.workers()} == names
        for job in held:
            site.open(str(job.payload["name"]))
        for job in held:
            done = ended(jobs, job)
            assert (done.status, done.attempt) == ("succeeded", 1)
        for worker in workers:
            assert worker.output == ""


@pytest.mark.parametrize("skew_seconds", [HOUR, -HOUR])
def test_a_host_whose_clock_is_wrong_steals_nothing(site: PostgresSite, jobs: Rowcall, skew_seconds: float) -> None:
    MovedClock(site.folder).move_to(skew_seconds)
    held = [jobs.enqueue("hold", {"name": str(number)}, max_attempts=1) for number in range(4)]
    with site.worker(lease=LEASE_SECONDS, concurrency=2) as right:
        eventually(lambda: len(site.lines) == 2)
        with site.worker(lease=LEASE_SECONDS, concurrency=2, options={"moved_clock": True}) as wrong:
            eventually(lambda: len(site.lines) == 4)
            names = {worker.name for worker in jobs.workers()}
            some_heartbeats(jobs, 10)
            assert {worker.name for worker in jobs.workers()} == names
            assert {(jobs.get(job.id).status, jobs.get(job.id).attempt) for job in held} == {("running", 1)}
            for job in held:
                site.open(str(job.payload["name"]))
            for job in held:
                assert (ended(jobs, job).status, jobs.get(job.id).attempt) == ("succeeded", 1)
            assert {right.output, wrong.output} == {""}


def test_one_on_another_host_is_missed_only_after_its_lease(site: PostgresSite, jobs: Rowcall, tmp_path: Path) -> None:
    lease = 2.0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker(lease=lease, env={"TMPDIR": str(elsewhere)}) as remote:
        site.wait_for_line("start x")
        assert list(elsewhere.rglob("worker-*")), "it keeps its file out of the sight of others"
        with site.worker(lease=lease):
            some_heartbeats(jobs, 2)
            remote.kill()
            killed_at = time.monotonic()
            site.wait_for_line("start x", times=2)
            # its last heartbeat may have been a fifth of the lease before its end
            assert time.monotonic() - killed_at > lease * 0.75
            site.open("x")
            assert ended(jobs, job).attempt == 2
    assert outcomes(jobs, job) == ["lost", "succeeded"]


def test_a_host_without_a_writable_folder_works(site: PostgresSite, jobs: Rowcall, tmp_path: Path) -> None:
    (tmp_path / f"rowcall-{os.getuid()}").touch()  # in the way of the folder
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker(lease=LEASE_SECONDS, env={"TMPDIR": str(tmp_path)}) as bare:
        site.wait_for_line("start x")
        assert [worker.lock_path for worker in jobs.workers()] == [None]
        with site.worker(lease=LEASE_SECONDS):
            bare.kill()
            site.wait_for_line("start x", times=2)
            site.open("x")
            assert ended(jobs, job).attempt == 2


def test_a_worker_that_dies_before_the_next_survey_is_noticed_by_its_file(
    site: PostgresSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_of(site.jobs).database, "survey_seconds", HOUR)
    surveys = threading.Semaphore(0)

    class Counted(Recovery):
        def check(self, stopping: Stopping = never) -> int:
            recovered = super().check(stopping)
            surveys.release()
            return recovered

    thread = Background("recovery", Counted(queue_of(site.jobs)).run, queue_of(site.jobs).clock)
    thread.start()
    try:
        assert surveys.acquire(timeout=30)
        (job, _) = enqueue_held(site.jobs)
        with site.start_worker(lease=HOUR) as process:
            site.wait_for_line("start hold")
            process.kill()
        comes_to(site.jobs, job, "pending")
        assert outcomes(site.jobs, job) == ["lost"]
    finally:
        thread.stop()
        thread.wait()


def test_a_file_that_belongs_to_another_queue_costs_two_surveys(
    site: PostgresSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovery = Recovery(queue_of(site.jobs))
    folder = site.folder / "side"
    folder.mkdir()
    (folder / "worker-of-another-queue").touch()
    monkeypatch.setattr(type(queue_of(site.jobs).database), "side_folder", str(folder))
    for _ in range(2):  # after one, its worker may be about to register
        assert recovery.any_dead_here()
        assert recovery.check() == 0
    assert not recovery.any_dead_here()
