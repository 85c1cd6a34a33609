"""A drain by one or more processes of a contestant: contest NAME URL JOBS PROCESSES.

The clock runs from when all of them are connected until another process sees that the last job is settled.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from ctypes import Array, c_longlong
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Barrier

import psycopg
import uvloop

from benchmarks.contestants import contestant

READY_SECONDS = 60.0
LONGEST_DRAIN_SECONDS = 120.0
LOOK_EVERY_SECONDS = 0.005


def main() -> None:
    name, url, jobs, processes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    uvloop.run(contestant(name).fill(url, jobs))
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("vacuum analyze")
        database.execute("checkpoint")
        print(json.dumps({"drain": jobs / drain_seconds(name, url, jobs, processes, database)}))


def drain_seconds(name: str, url: str, jobs: int, processes: int, database: psycopg.Connection) -> float:
    spawning = multiprocessing.get_context("spawn")
    barrier = spawning.Barrier(processes + 1, timeout=READY_SECONDS)
    handled: Array[c_longlong] = spawning.RawArray(c_longlong, processes)
    drainers = [
        spawning.Process(target=drain, args=(name, url, barrier, handled, number), daemon=True)
        for number in range(processes)
    ]
    for drainer in drainers:
        drainer.start()
    try:
        barrier.wait()
        began = time.perf_counter()
        # the table is asked only when all handlers have been called: the question is not free
        wait_for(lambda: sum(handled) >= jobs, drainers)
        ended = wait_for(lambda: database.execute(contestant(name).LEFT.encode()).fetchone() == (0,), drainers)
    finally:
        for drainer in drainers:
            drainer.kill()
            drainer.join()
    if sum(handled) != jobs:
        sys.exit(f"{name} handled {sum(handled)} jobs of {jobs}")
    return ended - began


def drain(name: str, url: str, barrier: Barrier, handled: Array[c_longlong], number: int) -> None:
    def count(jobs: int) -> None:
        handled[number] += jobs

    uvloop.run(contestant(name).drain(url, barrier.wait, count))


def wait_for(reached: Callable[[], bool], drainers: Sequence[SpawnProcess]) -> float:
    """Return when the read began that saw it reached."""
    deadline = time.perf_counter() + LONGEST_DRAIN_SECONDS
    while (now := time.perf_counter()) < deadline:
        if reached():
            return now
        if any(drainer.exitcode for drainer in drainers):
            sys.exit("a process of the contest failed")
        time.sleep(LOOK_EVERY_SECONDS)
    sys.exit(f"the jobs were not done within {LONGEST_DRAIN_SECONDS:.0f} s")


if __name__ == "__main__":
    main()
