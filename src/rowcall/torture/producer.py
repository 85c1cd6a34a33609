"""A producer of `rowcall torture`: enqueues jobs until it is killed, and acknowledges them in its witness file."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.domain.errors import StoreUnavailable
from rowcall.domain.job import Job
from rowcall.torture.witness import Acknowledgements
from rowcall.torture.workload import FOLDER, NAME, PREFIX, Workload, opened

ACCOUNTS = 100
SINGLES = 5
"""Jobs that are enqueued one by one, after the others."""
SHARES = {"plain": 500, "threaded": 15, "slow": 10, "flaky": 10, "failing": 5, "limited": 10, "ordered": 15}
"""Jobs of each task in a portion."""
PORTION = sum(SHARES.values()) + SINGLES
ENOUGH_WAITING = 10_000
"""Producers pause there, so that the backlog does not grow without end."""
PAUSE_SECONDS = 0.05


class Producer:
    def __init__(self, workload: Workload, acknowledge: Callable[[str, list[int]], None], name: str) -> None:
        self._workload = workload
        self._acknowledge = acknowledge
        # an order begins with the producer: ids of other producers may be committed late
        self._accounts = [f"{name}-{number}" for number in range(ACCOUNTS)]
        self._random = random.Random(name)

    def portion(self) -> None:
        """Enqueue some jobs of each task. What is not acknowledged may be there, or not."""
        tasks = list(SHARES)
        self._random.shuffle(tasks)
        for name in tasks:
            self._many(name, SHARES[name])
        for _ in range(SINGLES):
            self._written("plain", lambda: [self._workload.plain.enqueue()])

    def _many(self, name: str, count: int) -> None:
        task = getattr(self._workload, name)
        arguments: Iterable[dict[str, str]] = ({} for _ in range(count))
        if name == "ordered":
            arguments = ({"account": self._random.choice(self._accounts)} for _ in range(count))
        self._written(name, lambda: task.enqueue_many(list(arguments)))

    def _written(self, name: str, enqueue: Callable[[], list[Job]]) -> None:
        try:
            jobs = enqueue()
        except StoreUnavailable:  # a fault: the call may have been done
            return
        self._acknowledge(name, [job.id for job in jobs])


def main(per_second: float) -> None:
    name = os.environ[NAME]
    with opened(None, os.environ[PREFIX]) as jobs:
        acknowledgements = Acknowledgements(Path(os.environ[FOLDER], f"{name}.acknowledged"))
        producer = Producer(Workload(jobs, None), acknowledgements.write, name)
        due_at = SYSTEM_CLOCK.timer()
        while True:
            try:
                waiting = jobs.stats().by_status["pending"]
            except StoreUnavailable:
                waiting = ENOUGH_WAITING
            now = SYSTEM_CLOCK.timer()
            if (per_second == 0 and waiting >= ENOUGH_WAITING) or now < due_at:
                SYSTEM_CLOCK.sleep(PAUSE_SECONDS)
                continue
            producer.portion()
            due_at += PORTION / per_second if per_second else 0.0


if __name__ == "__main__":
    main(float(sys.argv[1]))
