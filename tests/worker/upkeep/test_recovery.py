"""Workers that die, stop or fall silent, and who gets their jobs."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import threading
from contextlib import closing

import pytest

from rowcall import Rowcall
from rowcall.app import queue_of
from rowcall.testing import FakeClock, eventually
from rowcall.worker.pace import FILES_WATCHED
from rowcall.worker.registrar import Registrar
from rowcall.worker.settings import Settings
from rowcall.worker.upkeep.recovery import Recovery
from tests.worker.support import Site, comes_to, ended, outcomes, some_heartbeats

pytestmark = [pytest.mark.concurrency, pytest.mark.crash]


@pytest.mark.parametrize("task", ["hold", "ahold"])
def test_the_jobs_of_a_killed_worker_run_again_soon_when_another_is_alive(site: Site, jobs: Rowcall, task: str) -> None:
    job = jobs.enqueue(task, {"name": "x"})
    with site.worker(concurrency=1) as first:
        site.wait_for_line("start x")
        with site.worker(concurrency=1) as second:
            first.kill()
            eventually(lambda: site.lines.count("start x") == 2, within=2)
            site.open("x")
            done = ended(jobs, job)
    assert (done.status, done.attempt) == ("succeeded", 2)
    assert done.worker is not None
    assert f":{second.pid}:" in done.worker
    lost, succeeded = jobs.attempts(job.id)
    assert (lost.status, lost.error_code, succeeded.status) == ("lost", "WORKER:LOST", "succeeded")
    assert lost.worker is not None
    assert f":{first.pid}:" in lost.worker
    assert lost.started_at is not None
    assert [worker.pid for worker in jobs.workers()] == [second.pid]


def test_with_no_other_alive_the_next_worker_recovers_them_first(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker() as first:
        site.wait_for_line("start x")
        first.kill()
    assert jobs.get(job.id).status == "running"
    site.open("x")
    with site.worker() as second:
        done = ended(jobs, job)
        assert (done.status, done.attempt) == ("succeeded", 2)
        assert done.worker is not None
        assert f":{second.pid}:" in done.worker
    assert outcomes(jobs, job) == ["lost", "succeeded"]


def test_drain_recovers_the_jobs_of_dead_workers_first(
    site: Site, jobs: Rowcall, caplog: pytest.LogCaptureFixture
) -> None:
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker() as first:
        site.wait_for_line("start x")
        first.kill()

    @jobs.task
    def hold(name: str) -> str:
        return f"{name} at last"

    assert jobs.drain().succeeded == 1
    assert jobs.get(job.id).result == "x at last"
    assert [
        line for line in caplog.messages if re.fullmatch(r"recovered 1 job from worker \S+: its process is gone", line)
    ] != []


def test_a_job_that_was_only_buffered_never_pays(site: Site, jobs: Rowcall) -> None:
    """Whatever a killed worker held ready but had not begun has no attempt and no history of one."""
    jobs.migrate()
    for number in range(400):
        jobs.enqueue("anote", {"text": str(number)}, priority=2)
    slow = jobs.enqueue("stubborn", {"name": "slow"}, priority=1)
    waiting = [jobs.enqueue("anote", {"text": "behind"}) for _ in range(300)]
    with site.worker(concurrency=1) as process:
        site.wait_for_line("start slow")
        process.kill()
    held = jobs.stats().by_status["running"]
    with closing(sqlite3.connect(site.database)) as connection:
        (buffered,) = connection.execute(
            "select count(*) from rowcall_jobs where status = 'running' and started_at is null"
        ).fetchone()
    assert buffered > 0
    watcher = Recovery(queue_of(jobs))
    assert watcher.check() == held
    assert (jobs.get(slow.id).status, jobs.get(slow.id).attempt) == ("pending", 1)
    assert outcomes(jobs, slow) == ["lost"]
    for job in waiting:
        left = jobs.get(job.id)
        assert (left.status, left.attempt) == ("pending", 0)
        assert outcomes(jobs, job) == []


def test_a_job_that_left_the_buffer_pays_though_its_row_does_not_say_so_yet(site: Site, jobs: Rowcall) -> None:
    """The liveness file shows it: a buffered job that kills its worker must not do so for ever."""
    jobs.migrate()
    for number in range(300):
        jobs.enqueue("anote", {"text": str(number)}, priority=2)
    killers = [jobs.enqueue("kill_the_worker", {"name": f"k{number}"}, priority=1) for number in range(3)]
    with site.worker(concurrency=1) as process:
        eventually(lambda: not process.alive)
    Recovery(queue_of(jobs)).check()
    paid = [jobs.get(job.id).attempt for job in killers]
    assert sorted(paid) == [0, 0, 1]
    events = [event.event for event in jobs.timeline(killers[paid.index(1)].id)]
    assert events == ["ENQUEUED", "CLAIMED", "STARTED", "RECOVERED"]
    assert len([line for line in site.lines if line.startswith("start k")]) == 1


def test_a_job_that_kills_its_worker_is_started_max_attempts_times_and_fails(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("kill_the_worker", {"name": "k"}, max_attempts=3)
    innocent = jobs.enqueue("note", {"text": "innocent"}, priority=-1)
    for _ in range(3):
        process = site.start_worker(concurrency=1)
        assert process.wait() == -signal.SIGKILL
        process.close()
    with site.worker(concurrency=1):
        failed = ended(jobs, job)
        assert ended(jobs, innocent).status == "succeeded"
    assert (failed.status, failed.attempt, failed.error_code) == ("failed", 3, "WORKER:LOST")
    assert failed.finished_at is not None
    assert outcomes(jobs, job) == ["lost"] * 3
    assert site.lines.count("start k") == 3


def test_a_child_that_a_handler_forked_does_not_keep_its_dead_worker_alive(site: Site, jobs: Rowcall) -> None:
    job = jobs.enqueue("fork_and_hold", {"name": "x"})
    try:
        with site.worker() as first:
            site.wait_for_line("start x")
            with site.worker():
                first.kill()
                site.wait_for_line("start x", times=2, within=2)
                site.open("x")
                assert ended(jobs, job).attempt == 2
    finally:
        site.open("child")
    site.wait_for_line("end child", times=2)


def test_a_silent_worker_is_lost_after_a_whole_lease_and_not_before(
    jobs: Rowcall, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """By the watcher's own monotonic clock, from when it first saw the heartbeat."""
    clock = FakeClock()
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker(lease=15) as process:
        site.wait_for_line("start x")
        site.stop(process)
        with Rowcall(site.database, clock=clock) as other:
            watcher = Recovery(queue_of(other))
            clock.advance_monotonic(1000)
            assert watcher.check() == 0  # first seen now
            clock.advance_monotonic(14.9)
            clock.jump(7200)
            assert watcher.check() == 0
            clock.advance_monotonic(0.2)
            assert watcher.check() == 1
        assert re.fullmatch(r"recovered 1 job from worker \S+: silent for 15 s", caplog.messages[-1])
        assert jobs.get(job.id).status == "pending"
        assert jobs.workers() == []


def test_a_heartbeat_in_between_restarts_the_lease(jobs: Rowcall, site: Site) -> None:
    clock = FakeClock()
    jobs.migrate()
    with site.worker(lease=0.5), Rowcall(site.database, clock=clock) as other:
        watcher = Recovery(queue_of(other))
        for _ in range(5):
            assert watcher.check() == 0
            some_heartbeats(jobs, 1)
            clock.advance_monotonic(0.6)
        assert watcher.check() == 0
        assert len(jobs.workers()) == 1


def test_two_recoveries_at_once_do_no_harm(jobs: Rowcall, site: Site) -> None:
    made = [jobs.enqueue("hold", {"name": f"x{number}"}) for number in range(20)]
    with site.worker(concurrency=20) as process:
        for number in range(20):
            site.wait_for_line(f"start x{number}")
        process.kill()
    watchers = [Recovery(queue_of(jobs)) for _ in range(4)]
    found: list[int] = []
    threads = [threading.Thread(target=lambda watcher=watcher: found.append(watcher.check())) for watcher in watchers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while jobs.workers():
        found.append(Recovery(queue_of(jobs)).check())  # each may have mistaken another check for a heartbeat
    assert sum(found) == 20
    for job in made:
        assert (jobs.get(job.id).attempt, outcomes(jobs, job)) == (1, ["lost"])


def test_jobs_of_a_worker_that_is_not_registered_are_found(jobs: Rowcall, site: Site) -> None:
    job = jobs.enqueue("hold", {"name": "x"})
    with site.worker() as process:
        site.wait_for_line("start x")
        process.kill()
    with closing(sqlite3.connect(site.database)) as connection, connection:
        connection.execute("delete from rowcall_worker")
    assert Recovery(queue_of(jobs)).check() == 1
    assert comes_to(jobs, job, "pending").attempt == 1


def test_a_worker_that_retires_leaves_nothing_behind(jobs: Rowcall, site: Site) -> None:
    with jobs.worker():
        assert [name for name in os.listdir(f"{site.database}-rowcall") if name.startswith("worker-")] != []
    assert [name for name in os.listdir(f"{site.database}-rowcall") if name.startswith("worker-")] == []
    assert jobs.workers() == []


def test_each_worker_watches_a_few_others_and_together_they_notice_every_death(jobs: Rowcall) -> None:
    """If all watched all, 200 idle workers of a host would try 80,000 locks a second."""
    queue = queue_of(jobs)
    registrars = [Registrar(queue, Settings()) for _ in range(8)]
    for registrar in registrars:
        registrar.register()
    watchers = [Recovery(queue, registrar) for registrar in registrars]
    for watcher in watchers:
        watcher.check()
        assert not watcher.any_dead_here()
    first, *others = sorted(zip(registrars, watchers, strict=True), key=lambda pair: path_of(pair[0]))
    release(first[0])
    assert [watcher.any_dead_here() for _, watcher in others] == [False] * 4 + [True] * FILES_WATCHED
    for registrar, _ in others[:-1]:
        release(registrar)
    alive, watcher = others[-1]
    assert watcher.any_dead_here()
    watcher.check()
    assert [worker.name for worker in jobs.workers()] == [alive.name]
    assert not watcher.any_dead_here()
    alive.close()


def path_of(registrar: Registrar) -> str:
    assert registrar.current.liveness_file is not None
    return registrar.current.liveness_file.path


def release(registrar: Registrar) -> None:
    """Free the lock, as the kernel does when a process dies."""
    assert registrar.current.liveness_file is not None
    registrar.current.liveness_file.release()
