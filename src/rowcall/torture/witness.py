"""Witness files: one line for each start and each end of a handler, and for each acknowledged enqueue.

A line is one `write` to a file opened with O_APPEND, so it survives the death of its process. A handler returns only
after an `fsync` that began after its lines: they are on the disk before the attempt can be settled. All handlers of a
process that wait at the same time share one `fsync`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.job import Job

START, END, KILLED, STOPPED = "start", "end", "killed", "stopped"
ACKNOWLEDGED = "acknowledged"


class Line(NamedTuple):
    """A line about an attempt. `at` is this machine's clock, in seconds."""

    event: str
    at: float
    job_id: int
    attempt: int
    lease: int


class WitnessFile:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._waiting: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self._asked = threading.Event()
        threading.Thread(target=self._sync, name="witness", daemon=True).start()

    def write(self, event: str, job: Job) -> None:
        at = SYSTEM_CLOCK.monotonic()
        os.write(self._file, f"{event} {at:.6f} {job.id} {job.attempt} {job.lease}\n".encode())

    def durable(self) -> None:
        """Return when all lines so far are on the disk."""
        synced = threading.Event()
        self._ask(synced.set)
        synced.wait()

    async def adurable(self) -> None:
        loop = asyncio.get_running_loop()
        synced: asyncio.Future[None] = loop.create_future()
        self._ask(lambda: loop.call_soon_threadsafe(_resolve, synced))
        await synced

    def _ask(self, synced: Callable[[], object]) -> None:
        with self._lock:
            self._waiting.append(synced)
        self._asked.set()

    def _sync(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            with self._lock:
                waiting, self._waiting = self._waiting, []
            os.fsync(self._file)
            for synced in waiting:
                synced()


def _resolve(synced: asyncio.Future[None]) -> None:
    if not synced.done():  # its handler may have been cancelled
        synced.set_result(None)


class Acknowledgements:
    """The file of one producer: the ids that its calls returned."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, task: str, job_ids: list[int]) -> None:
        os.write(self._file, f"{task} {' '.join(map(str, job_ids))}\n".encode())
        os.fsync(self._file)


def lines_of(path: Path) -> Iterator[list[str]]:
    """Yield the words of each whole line: the last one may be torn by a kill."""
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                yield line.split()


def attempts_of(path: Path) -> Iterator[Line]:
    for event, at, job_id, attempt, lease in lines_of(path):
        yield Line(event, float(at), int(job_id), int(attempt), int(lease))
