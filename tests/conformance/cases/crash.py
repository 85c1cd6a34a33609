"""SIGKILL: what a dead process leaves behind, and how it is recovered."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from rowcall import Rowcall, Status, StoreUnavailable
from rowcall.app import queue_of
from rowcall.declare.option_table import Options
from rowcall.operations.enqueue import bind_by_name
from rowcall.testing.deadline import eventually
from rowcall.testing.process import PythonProcess
from tests.conformance.fixtures import OpenQueue, StartProgram
from tests.conformance.notes import Notes
from tests.conformance.program import declare
from tests.conformance.store import Store
from tests.conformance.worker_parts import watcher

JOBS = 150


@pytest.mark.crash
class TestCrash:
    @pytest.fixture
    def real(self, open_queue: OpenQueue) -> Rowcall:
        jobs = open_queue()
        jobs.migrate()
        return jobs

    def test_a_killed_worker_s_jobs_run_again_by_another(
        self, real: Rowcall, start_program: StartProgram, notes: Notes, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        ids = [real.enqueue("held", {"until": str(gate)}).id for _ in range(3)]
        victim = start_program("work", "--concurrency", "3")
        eventually(lambda: len(notes.read("started")) == 3, message="three started")
        other = start_program("work", "--concurrency", "3")
        eventually(lambda: len(real.workers()) == 2, message="the other worker")
        victim.kill()
        eventually(lambda: len(notes.read("started")) == 6, within=10, message="all three started again")
        gate.touch()
        eventually(lambda: real.stats().by_status["succeeded"] == 3, message="all three succeeded")
        for job_id in ids:
            assert [(one.attempt, one.status) for one in real.attempts(job_id)] == [(1, "lost"), (2, "succeeded")]
        assert {note.pid for note in notes.read("ended")} == {other.pid}

    def test_all_begun_jobs_of_large_batches_are_counted(
        self, real: Rowcall, store: Store, start_program: StartProgram, notes: Notes
    ) -> None:
        jobs = 9000
        declare(real, notes).many.enqueue_many([{"item": number} for number in range(jobs)])
        victim = start_program("work", "--concurrency", "10")
        eventually(lambda: sum(note.job_id for note in notes.read("started")) == jobs, message="all began")
        victim.kill()
        eventually(lambda: watcher(real).check() == jobs, message="all recovered")
        assert store.execute("select count(*) from rowcall_job where status = 'pending' and attempt = 1") == [(jobs,)]

    def test_nothing_is_lost_and_each_attempt_is_accounted_for(
        self, real: Rowcall, start_program: StartProgram, notes: Notes
    ) -> None:
        call, over = (
            bind_by_name(queue_of(real), name, arguments, Options(max_attempts=50))
            for name, arguments in (("lasting", {"seconds": 0.01}), ("quick", {}))
        )
        batches = [real.batch("part", on_finish=over) for _ in range(3)]
        ids = [job.id for batch in batches for job in batch.add([call] * (JOBS // 3))]
        assert all(batch.seal() for batch in batches)
        workers = [start_program("work", "--concurrency", "2") for _ in range(3)]
        for done in (JOBS // 5, 2 * JOBS // 5, 3 * JOBS // 5):
            eventually(lambda done=done: len(notes.read("ended")) >= done, message="some progress")  # type: ignore[misc]
            workers.pop(0).kill()
            workers.append(start_program("work", "--concurrency", "2"))
        eventually(lambda: real.stats().by_status["succeeded"] == JOBS + len(batches), message="all succeeded")
        infos = [batch.counts() for batch in batches]
        assert [(one.status, one.succeeded, one.total) for one in infos] == [("finished", JOBS // 3, JOBS // 3)] * 3
        ids += [one.finish_job or 0 for one in infos]
        assert {job.id for job in real.list(limit=1000).jobs} == set(ids), "each batch was reported once"
        self._accounted_for(real, notes, ids)

    def _accounted_for(self, jobs: Rowcall, notes: Notes, ids: list[int]) -> None:
        started = Counter((note.job_id, note.attempt) for note in notes.read("started"))
        assert set(started.values()) == {1}, "an attempt was started twice"
        recorded = {(job_id, one.attempt): one.status for job_id in ids for one in jobs.attempts(job_id)}
        assert set(started) <= set(recorded), "an attempt was started that is not in the database"
        for job_id in ids:
            statuses = [one.status for one in jobs.attempts(job_id)]
            assert statuses == ["lost"] * (len(statuses) - 1) + ["succeeded"]
            assert [one.attempt for one in jobs.attempts(job_id)] == list(range(1, len(statuses) + 1))
            assert jobs.get(job_id).attempt == len(statuses)
            assert all(one.started_at for one in jobs.attempts(job_id)), "an attempt without its start"
        succeeded = {key for key, status in recorded.items() if status == "succeeded"}
        assert succeeded <= {(note.job_id, note.attempt) for note in notes.read("ended")}

    def test_a_job_that_kills_its_worker_fails_after_exactly_max_attempts_starts(
        self, real: Rowcall, start_program: StartProgram, notes: Notes
    ) -> None:
        job_id = real.enqueue("deadly", queue="dangerous", max_attempts=3).id
        start_program("work", "--queues", "quiet")  # it lives on, and looks after the others
        eventually(real.workers, message="the one that lives on")
        for attempt in (1, 2, 3):
            victim = start_program("work", "--queues", "dangerous")
            assert victim.wait() == -signal.SIGKILL, victim.output
            eventually(lambda: real.get(job_id).status is not Status.RUNNING, message="recovery")
            assert real.get(job_id).attempt == attempt
        job = real.get(job_id)
        assert (job.status, job.error_code, job.attempt) == (Status.FAILED, "WORKER:LOST", 3)
        assert [(note.job_id, note.attempt) for note in notes.read("started")] == [
            (job_id, 1),
            (job_id, 2),
            (job_id, 3),
        ]
        assert [one.status for one in real.attempts(job_id)] == ["lost"] * 3

    def test_a_stopped_worker_settles_nothing_that_is_no_longer_its_own(
        self, real: Rowcall, start_program: StartProgram, notes: Notes, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        job_id = real.enqueue("held", {"until": str(gate)}).id
        sleeper = start_program("work", "--lease", "1")
        eventually(lambda: len(notes.read("started")) == 1, message="the start")
        sleeper.send(signal.SIGSTOP)
        other = start_program("work", "--lease", "1")
        eventually(lambda: len(notes.read("started")) == 2, message="the second start")
        sleeper.send(signal.SIGCONT)
        gate.touch()
        eventually(lambda: len(notes.read("ended")) == 2, message="both handlers ended")
        eventually(lambda: real.get(job_id).status is Status.SUCCEEDED, message="the job succeeded")
        self._stop(sleeper, other)
        job = real.get(job_id)
        attempts = [(one.attempt, one.status) for one in real.attempts(job_id)]
        assert (job.status, job.attempt, attempts) == (Status.SUCCEEDED, 2, [(1, "lost"), (2, "succeeded")])
        by_second = [note.pid for note in notes.read("started") if note.attempt == 2]
        assert by_second == [other.pid]

    def test_a_worker_that_was_stopped_begins_nothing_of_its_buffer(
        self, real: Rowcall, start_program: StartProgram, notes: Notes, tmp_path: Path
    ) -> None:
        gate = tmp_path / "gate"
        sleeper = start_program("work", "--concurrency", "1", "--lease", "1")

        def is_stopped_with_a_buffer() -> bool:
            gate.unlink(missing_ok=True)
            with real.transaction():
                for _ in range(6):
                    real.enqueue("narrow", {"until": str(gate)})
                real.enqueue("stopping", priority=1)
                for _ in range(200):  # quick ones before it, for a buffer of some size
                    real.enqueue("quick", priority=2)
            eventually(lambda: sleeper.is_stopped, message="the stop")
            if real.list(status="running", type="narrow").jobs and self._can_write(real):
                return True
            gate.touch()
            sleeper.send(signal.SIGCONT)
            eventually(lambda: real.stats().by_status["succeeded"] % 207 == 0, message="another try")
            return False

        eventually(is_stopped_with_a_buffer, within=60, message="a stopped worker with a buffer")
        names = {worker.name for worker in real.workers()}
        narrow = {job.id for job in real.list(type="narrow", limit=500).jobs if job.status == "pending"}
        narrow |= {job.id for job in real.list(status="running", type="narrow").jobs}
        other = start_program("work", "--concurrency", "8", "--lease", "1")

        def started() -> list[int]:
            return [note.pid for note in notes.read("started") if note.job_id in narrow]

        eventually(lambda: len(started()) == 3, message="three of them, as many as may run at once")
        sleeper.send(signal.SIGCONT)
        eventually(
            lambda: {one.pid for one in real.workers() if one.name not in names} == {sleeper.pid, other.pid},
            within=60,  # with a lease of one second, a busy machine may declare either of them lost once more
            message="a new name",
        )
        assert started() == [other.pid] * 3
        gate.touch()
        eventually(lambda: real.stats().by_status["succeeded"] % 207 == 0, message="all succeeded")
        at_once = most = 0
        for note in notes.read():
            if note.job_id in narrow:
                at_once += 1 if note.event == "started" else -1
                most = max(most, at_once)
        assert most <= 3
        assert sorted(note.job_id for note in notes.read("started") if note.job_id in narrow) == sorted(narrow)

    def _can_write(self, jobs: Rowcall) -> bool:
        """Whether the stopped process does not hold a lock that all others wait for."""
        try:
            jobs.delete(jobs.enqueue("nobody's").id)
        except StoreUnavailable:
            return False
        return True

    def test_what_a_killed_process_had_claimed_by_hand_comes_back_with_its_lease(
        self, real: Rowcall, start_program: StartProgram, notes: Notes
    ) -> None:
        job_id = real.enqueue("quick").id
        claimer = start_program("hold", "--lease", "0.5")
        eventually(lambda: notes.read("started"), message="the claim")
        claimer.kill()
        again = eventually(lambda: real.dequeue("other"), message="the lease to run out")
        assert (again.id, again.attempt) == (job_id, 2)
        real.complete(again)
        attempts = [(one.attempt, one.status, one.worker) for one in real.attempts(job_id)]
        assert attempts == [(1, "lost", f"hand-{claimer.pid}"), (2, "succeeded", "other")]

    def _stop(self, *workers: PythonProcess) -> None:
        for worker in workers:
            worker.send(signal.SIGTERM)
        assert [worker.wait() for worker in workers] == [0] * len(workers), [worker.output for worker in workers]


class Tried(NamedTuple):
    """An attempt as it is in the database."""

    attempt: int
    status: str
    worker: str


@pytest.mark.crash
@pytest.mark.slow
class TestStorm:
    """Four workers, one of them killed every 300 ms at random, until all jobs are through."""

    COUNT = int(os.environ.get("ROWCALL_TEST_STORM_JOBS", "1500"))
    WORKERS = 4

    @pytest.mark.parametrize("max_attempts", [50, 5])
    def test_every_job_gets_through_and_every_attempt_is_accounted_for(
        self, open_queue: OpenQueue, start_program: StartProgram, store: Store, notes: Notes, max_attempts: int
    ) -> None:
        jobs = open_queue()
        declared = declare(jobs, notes)
        written = declared.lasting.using(max_attempts=max_attempts).enqueue_many([{"seconds": 0.01}] * self.COUNT)
        killed = kill_until(lambda: _finished(jobs) == self.COUNT, jobs, start_program, self.WORKERS)
        assert killed, "no process was killed"
        accounts: dict[int, list[Tried]] = {job.id: [] for job in written}
        for row in store.execute("select job_id, attempt, status, worker from rowcall_attempts order by job_id, seq"):
            job_id, attempt, status, worker = cast("tuple[int, int, str, str]", row)
            accounts[job_id].append(Tried(attempt, status, worker))
        started = Counter((note.job_id, note.attempt) for note in notes.read("started"))
        recorded = Counter((job_id, one.attempt) for job_id, attempts in accounts.items() for one in attempts)
        assert set(started.values()) == {1}, "an attempt was started twice"
        assert set(recorded.values()) == {1}, "an attempt was written down twice"
        assert set(started) <= set(recorded), "an attempt was started that is not in the database"
        for attempts in accounts.values():
            self._check(attempts, killed, max_attempts)

    def _check(self, attempts: list[Tried], killed: set[int], max_attempts: int) -> None:
        assert [one.attempt for one in attempts] == list(range(1, len(attempts) + 1))
        *lost, last = attempts
        assert {one.status for one in lost} <= {"lost"}
        assert {_pid(one) for one in lost} <= killed, "an attempt was lost with a worker that lives"
        if last.status == "lost":
            assert len(attempts) == max_attempts
            assert _pid(last) in killed
        else:
            assert last.status == "succeeded"


def kill_until(
    done: Callable[[], bool], jobs: Rowcall, start_program: StartProgram, count: int, every_seconds: float = 0.3
) -> set[int]:
    """Run workers, and kill one of them every 300 ms. Return the ids of the processes that were killed."""
    chance = random.Random(7)
    workers = [start_program("work", "--concurrency", "10") for _ in range(count)]
    killed: set[int] = set()
    pace = threading.Event()
    while not done():
        pace.wait(every_seconds)
        registered = {worker.pid for worker in jobs.workers()}
        ready = [worker for worker in workers if worker.pid in registered]
        if len(ready) > 1:  # on a slow machine, let one of them get going
            victim = chance.choice(ready)
            victim.kill()
            killed.add(victim.pid)
            workers[workers.index(victim)] = start_program("work", "--concurrency", "10")
    return killed


def _finished(jobs: Rowcall) -> int:
    by_status = jobs.stats().by_status
    return by_status["succeeded"] + by_status["failed"]


def _pid(attempt: Tried) -> int:
    """Of the process in a worker's name: `host:pid:part`."""
    return int(attempt.worker.rsplit(":", 2)[1])
