"""Hold an old snapshot while a PostgreSQL worker drains, and print how long rounds and `stats` take over time.

python -m benchmarks.snapshot --minutes 60

The worker has a backlog all the time and runs jobs of 5 ms in 20 slots, so about 4,000 a second: the machine is not
busy, and a slower search shows. With fewer `--slots`, it can run for an hour next to other programs. Jobs are added
between the parts. The first part runs without the snapshot, and the last one after it. Dead rows are the rows that no
vacuum has removed yet.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import psycopg

from benchmarks.app import open_app
from benchmarks.bench import Bench, opened
from benchmarks.database import Database, connect
from benchmarks.fill import POSTGRES, Filler, filling, make_queue
from benchmarks.patches import ROUNDS, read_rounds
from benchmarks.statistics import percentile
from benchmarks.workers import environment, worker_processes
from rowcall import Rowcall

HANDLER_SECONDS = 0.005
PARTS = 10
STATS_EVERY_SECONDS = 2.0
DEAD = "select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables where relname like 'rowcall%'"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshot", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the snapshot is held (10)")
    parser.add_argument("--slots", type=int, default=20, help="how many jobs the worker runs at a time (20)")
    options = parser.parse_args()
    with opened() as bench:
        measure(bench.on("postgres"), options.minutes * 60, options.slots)


def measure(bench: Bench, seconds: float, slots: int) -> None:
    part_seconds = seconds / PARTS
    jobs_in_a_part = round(slots / HANDLER_SECONDS * part_seconds)  # a few more than the worker can run
    with bench.fresh_site() as site, ExitStack() as stack:
        make_queue(site.url)
        with filling(site.url) as fill:
            fill.waiting(2 * jobs_in_a_part, "slow_async")
        rounds = site.folder / "rounds"
        jobs = stack.enter_context(open_app(site.url).jobs)
        database = stack.enter_context(closing(connect(site.url)))
        with environment(**{ROUNDS: str(rounds)}):
            (worker,) = stack.enter_context(worker_processes(site, options=[f"--concurrency={slots}"]))
        time.sleep(part_seconds / 2)  # the worker starts, and learns how fast its handlers are
        headings = ("rounds/s", "p50 ms", "p95 ms", "of first", "jobs/s", "stats ms", "  dead rows")
        print(" " * 22 + "".join(f"{heading:>{max(10, len(heading) + 1)}}" for heading in headings), flush=True)
        first_ms = show("before the snapshot", watch(jobs, rounds, part_seconds, database))
        reader = stack.enter_context(psycopg.connect(site.url))
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("select 1 from rowcall_ready limit 1")
        for number in range(PARTS):
            Filler(database, POSTGRES).waiting(jobs_in_a_part, "slow_async")
            show(f"next to it, {number + 1} of {PARTS}", watch(jobs, rounds, part_seconds, database), first_ms)
            worker.check()
        reader.rollback()
        Filler(database, POSTGRES).waiting(jobs_in_a_part, "slow_async")
        show("after it", watch(jobs, rounds, part_seconds, database), first_ms)


class Part(NamedTuple):
    seconds: float
    rounds_ms: list[float]
    jobs: int
    slowest_stats_ms: float
    dead_rows: int


def watch(jobs: Rowcall, rounds: Path, seconds: float, database: Database) -> Part:
    """Ask for `stats` every now and then. Return what happened in between."""
    began = time.time()
    stats_ms: list[float] = []
    done: list[int] = []
    while (left := began + seconds - time.time()) > 0 or not done:
        asked = time.perf_counter()
        done.append(jobs.stats().by_status["succeeded"])
        stats_ms.append((time.perf_counter() - asked) * 1000)
        time.sleep(max(0.0, min(STATS_EVERY_SECONDS, left)))
    done.append(jobs.stats().by_status["succeeded"])
    ended = time.time()
    millis = [one.seconds * 1000 for one in read_rounds(rounds) if began <= one.ended < ended]
    return Part(ended - began, millis, done[-1] - done[0], max(stats_ms), int(database.rows(DEAD)[0][0]))


def show(name: str, part: Part, first_ms: float | None = None) -> float:
    """Print a line. Return the median of the rounds."""
    p50, p95 = percentile(part.rounds_ms, 50), percentile(part.rounds_ms, 95)
    print(
        f"{name:<22}{len(part.rounds_ms) / part.seconds:>10.0f}{p50:>10.2f}{p95:>10.2f}{p50 / (first_ms or p50):>10.2f}"
        f"{part.jobs / part.seconds:>10,.0f}{part.slowest_stats_ms:>10.0f}{part.dead_rows:>12,}",
        flush=True,
    )
    return p50


if __name__ == "__main__":
    main()
