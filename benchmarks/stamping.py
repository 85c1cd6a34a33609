"""Workers whose handlers write down when they started."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.app import Stamp, read_stamps
from benchmarks.bench import Site
from benchmarks.fill import make_queue
from benchmarks.observer import Observer
from benchmarks.workers import WorkerProcess, worker_processes

LONGEST_WAIT_SECONDS = 30.0
SETTLE_DOWN_SECONDS = 0.3


@contextmanager
def started_worker(site: Site, stamps: Path | None = None, *, queue: str | None = None) -> Iterator[WorkerProcess]:
    """A worker process that has nothing more to do for its start."""
    make_queue(site.url)
    with worker_processes(site, options=[f"--queues={queue}"] if queue else [], stamps=stamps) as (worker,):
        with closing(Observer(site.url)) as observer:
            observer.wait_for_workers(1, worker)
        time.sleep(SETTLE_DOWN_SECONDS)
        yield worker


def wait_for_stamps(path: Path, count: int, worker: WorkerProcess) -> list[Stamp]:
    """The stamps of this many jobs, once all are there."""
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while len(stamps := read_stamps(path)) < count:
        worker.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(stamps)} of {count} jobs started within {LONGEST_WAIT_SECONDS:.0f} s")
        time.sleep(0.02)
    return stamps
