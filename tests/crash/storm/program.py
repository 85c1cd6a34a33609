"""What the processes of a storm run. The environment says on which database."""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from rowcall.app import queue_of
from rowcall.worker.process.os_signals import work
from tests.crash.storm.effects import effect
from tests.crash.storm.producing import Producer
from tests.crash.storm.steering import Claimer, Steerer
from tests.crash.storm.tasks import jobs, notes

LEASE_SECONDS = 1.0
CONCURRENCY = 6


def repeat(step: Callable[[], None], folder: Path, times: int | None = None) -> None:
    """Until it was done so often, or all is to become calm."""
    notes.write("ready")
    while times != 0 and not (folder / "calm").exists():
        step()
        times = None if times is None else times - 1


def main(role: str, seed: str, folder: str, count: str) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s", stream=sys.stdout)
    faulthandler.register(signal.SIGUSR1)  # prints where it is stuck
    assert effect.name in queue_of(jobs).declared.tasks
    with jobs:
        jobs.stats()  # connects
        match role:
            case "work":
                worker = jobs.worker(concurrency=CONCURRENCY, lease=LEASE_SECONDS)
                work(worker, ready=lambda: notes.write("ready"))
            case "produce":
                repeat(Producer(seed).enqueue_something, Path(folder), int(count))
            case "steer":
                repeat(Steerer(seed).steer, Path(folder))
            case "claim":
                repeat(Claimer(seed).work, Path(folder))
