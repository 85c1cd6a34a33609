"""A folder where handlers leave traces, and worker processes that run them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rowcall import Job, Rowcall
from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.operations.effects import Write
from rowcall.store.claims.demand import Demand
from rowcall.store.claims.round import claim_by_hand
from rowcall.testing.deadline import eventually
from rowcall.testing.process import ForkedProcess, PythonProcess
from rowcall.worker.attempt import Attempt, CommonFacts
from rowcall.worker.completion import Completion
from rowcall.worker.registrar import Identity

ROOT = Path(__file__).parents[2]
FINISHED = ("succeeded", "failed", "cancelled")


class MovedClock(SystemClock):
    """The system's clock, moved by what a file says: for many processes at once."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"

    def now(self) -> datetime:
        seconds = float(self._file.read_text()) if self._file.exists() else 0.0
        return datetime.now(UTC) + timedelta(seconds=seconds)

    def move_to(self, seconds: float) -> None:
        written = self._file.with_suffix(".new")
        written.write_text(str(seconds))
        written.rename(self._file)


class Site:
    """A folder with a database, a journal that handlers append to, and gates that tests open for them."""

    def __init__(self, folder: Path, *, busy_timeout: float = 5.0, moved_clock: bool = False) -> None:
        self.folder = folder
        self.database = folder / "queue.db"
        self.jobs = Rowcall(self.database, busy_timeout=busy_timeout, clock=MovedClock(folder) if moved_clock else None)
        self._journal = folder / "journal"

    def trace(self, *words: object) -> None:
        """Append one line, whole even when the process is killed right after."""
        descriptor = os.open(self._journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
        finally:
            os.close(descriptor)

    @property
    def lines(self) -> list[str]:
        return self._journal.read_text().splitlines() if self._journal.exists() else []

    def wait_for_line(self, line: str, *, times: int = 1, within: float = 20.0) -> None:
        eventually(lambda: self.lines.count(line) >= times, within=within, message=f"{line!r}, {times} times")

    def open(self, name: str) -> None:
        (self.folder / f"{name}.open").touch()

    def is_open(self, name: str) -> bool:
        return (self.folder / f"{name}.open").exists()

    def wait_until_open(self, name: str, cancelled: Callable[[], bool] = lambda: False) -> None:
        pause = threading.Event()
        while not (self.is_open(name) or cancelled()):
            pause.wait(0.005)

    def worker(self, **settings: object) -> PythonProcess:
        """A process with a worker in it, registered and ready."""
        process = self.start_worker(**settings)
        eventually(
            lambda: any(worker.pid == process.pid for worker in self.jobs.workers()) or not process.alive,
            message="a registered worker",
        )
        assert process.alive, process.output
        return process

    def stop(self, process: PythonProcess) -> None:
        """SIGSTOP, but not inside a transaction: a stopped owner of SQLite's own lock stops everybody."""

        def stopped_in_a_good_moment() -> bool:
            process.send(signal.SIGSTOP)
            eventually(lambda: process.is_stopped)
            with closing(sqlite3.connect(self.database, timeout=0, isolation_level=None)) as connection:
                try:
                    connection.execute("begin immediate")
                except sqlite3.OperationalError:
                    process.send(signal.SIGCONT)
                    return False
                connection.execute("rollback")
                return True

        eventually(stopped_in_a_good_moment)

    def start_worker(self, **settings: object) -> PythonProcess:
        return ForkedProcess("-m", "tests.worker.program", str(self.folder), json.dumps(settings), cwd=str(ROOT))


def ended(jobs: Rowcall, job: Job) -> Job:
    """Wait until a job is finished."""
    eventually(lambda: jobs.get(job.id).status in FINISHED, message=f"the end of {jobs.get(job.id)}")
    return jobs.get(job.id)


def comes_to(jobs: Rowcall, job: Job, status: str) -> Job:
    eventually(lambda: jobs.get(job.id).status == status, message=f"{status} of {jobs.get(job.id)}")
    return jobs.get(job.id)


def all_ended(jobs: Rowcall, *, within: float = 20.0) -> None:
    def unfinished() -> int:
        counts = jobs.stats().by_status
        return sum(count for status, count in counts.items() if status not in FINISHED)

    eventually(lambda: unfinished() == 0, within=within, message="the end of all jobs")


def outcomes(jobs: Rowcall, job: Job) -> list[str]:
    """How each attempt ended, first to last."""
    return [attempt.status for attempt in jobs.attempts(job.id)]


def claimed(jobs: Rowcall, count: int) -> list[Attempt]:
    """Runs for a dispatcher without a worker."""
    claim = queue_of(jobs).run(Write(lambda: claim_by_hand(queue_of(jobs).dialect, Demand(worker="w", slots=count))))
    return [
        Attempt(
            ready,
            queue_of(jobs).declared.tasks[ready.type],
            CommonFacts(Identity("w", None), claim.work.now_ms, queue_of(jobs).clock, Completion(queue_of(jobs))),
            buffered=False,
        )
        for ready in claim.started
    ]


def some_heartbeats(jobs: Rowcall, count: int = 5) -> None:
    """Let some time pass, measured by the heartbeats of all workers."""
    before = {worker.name: worker.heartbeats for worker in jobs.workers()}
    assert before
    eventually(lambda: all(w.heartbeats >= before[w.name] + count for w in jobs.workers() if w.name in before))


def plain_rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()
