"""How fast a worker process drains.

The clock runs from the first claim, as its row says, until another process sees that the last job is settled. So the
start of the worker's process is not counted, and every commit but the first is.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from benchmarks.observer import Observer
from benchmarks.workers import worker_process


def drain_rate(path: Path, ids: range) -> float:
    """Jobs per second of one worker process for these jobs, which are in the file already."""
    with closing(Observer(path)) as observer:
        with worker_process(path) as worker:
            ended = observer.wait_until_settled(ids, worker)
        observer.check_all_succeeded(ids)
        return len(ids) / (ended - observer.first_claim(ids))
