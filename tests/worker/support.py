"""A place where handlers leave traces, and worker processes that run them."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from rowcall import Job, Rowcall
from rowcall.testing.process import PythonProcess
from rowcall.testing.waiting import eventually

ROOT = Path(__file__).parents[2]
FINISHED = ("succeeded", "failed", "cancelled")


class Place:
    """A folder with a database, a journal that handlers append to, and gates that tests open for them."""

    def __init__(self, folder: Path, *, busy_timeout: float = 5.0) -> None:
        self.folder = folder
        self.database = folder / "queue.db"
        self.jobs = Rowcall(self.database, busy_timeout=busy_timeout)
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

    def wait_for_line(self, line: str, *, times: int = 1) -> None:
        eventually(lambda: self.lines.count(line) >= times, message=f"{line!r} in {self.lines}")

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

    def start_worker(self, **settings: object) -> PythonProcess:
        return PythonProcess("-m", "tests.worker.program", str(self.folder), json.dumps(settings), cwd=str(ROOT))


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


def some_beats(jobs: Rowcall, count: int = 5) -> None:
    """Let some time pass, told by the signs of life of all workers there are."""
    before = {worker.name: worker.beat for worker in jobs.workers()}
    assert before
    eventually(lambda: all(w.beat >= before[w.name] + count for w in jobs.workers() if w.name in before))


def plain_rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
