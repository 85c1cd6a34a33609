"""Child jobs, streams and job logs: `python -m benchmarks.long_work [URL] [--only calls|streams|logs]`.

- calls: a job that calls many children and waits for all, next to as many plain jobs
- streams: values that a handler appends in a second, and how soon a reader in another process has the first one
- logs: jobs that log one line, with job logs and without

Each is measured in turns, and the medians are printed. The garbage collector is set as `rowcall work` sets it.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.bench import Figures, in_turns
from rowcall import Context, JobLog, Rowcall
from rowcall.worker.pace import COLLECTED_AFTER

CHILDREN, VALUES, LOGGED = 10_000, 50_000, 20_000
FIRST_VALUES = 30


class LongWork:
    """The tasks of one queue. `job_log`: whether lines are kept."""

    def __init__(self, url: str, *, keeps_lines: bool = True) -> None:
        self.jobs = Rowcall(url, job_log=JobLog() if keeps_lines else None)

        @self.jobs.task
        async def child(number: int) -> int:
            return number

        @self.jobs.task
        async def parent(ctx: Context) -> int:
            return len(await ctx.gather(*(ctx.call(child, number) for number in range(CHILDREN))))

        @self.jobs.task
        async def streaming(ctx: Context) -> None:
            for number in range(VALUES):
                ctx.stream(f"token {number}")

        @self.jobs.task
        def telling(ctx: Context) -> None:
            ctx.stream(time.time())

        @self.jobs.task
        async def logging(ctx: Context, number: int) -> None:
            ctx.log.info("number %d", number)

        self.child, self.parent, self.streaming, self.telling, self.logging = child, parent, streaming, telling, logging

    def drained(self, count: int) -> float:
        """Return how many jobs a second are drained."""
        began = time.perf_counter()
        self.jobs.drain()
        return count / (time.perf_counter() - began)


def calls(url: str) -> Figures:
    def plain(work: LongWork) -> float:
        work.child.enqueue_many([{"number": number} for number in range(CHILDREN)])
        return work.drained(CHILDREN)

    def called(work: LongWork) -> float:
        job = work.parent.enqueue()
        rate = work.drained(CHILDREN)
        assert work.jobs.get(job).result == CHILDREN
        return rate

    work = LongWork(url)
    with work.jobs:
        figures = in_turns({"plain jobs/s": lambda: plain(work), "children/s": lambda: called(work)})
    return {**figures, "ratio (at least 0.25)": figures["children/s"] / figures["plain jobs/s"]}


def streams(url: str) -> Figures:
    def appended(work: LongWork) -> float:
        job = work.streaming.enqueue()
        rate = work.drained(VALUES)
        assert sum(1 for _ in work.jobs.stream(job)) == VALUES
        return rate

    work = LongWork(url)
    with work.jobs:
        rates = [appended(work) for _ in range(3)]
        waits = _first_values(work, url)
    return {
        "values/s (at least 5,000; on PostgreSQL 3,000)": median(rates),
        "first value at a reader, median ms (at most 20)": median(waits),
        "the slowest ms": max(waits),
    }


def _first_values(work: LongWork, url: str) -> list[float]:
    """Return how many milliseconds after `ctx.stream` a reader in another process has a value."""
    waits = []
    reader = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.long_work", url, "--read"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    with work.jobs.worker(concurrency=1), reader:
        for _ in range(FIRST_VALUES):
            job = work.telling.using(delay=0.3).enqueue()
            reader.stdin.write(f"{job.id}\n")
            reader.stdin.flush()
            waits.append(float(reader.stdout.readline()))
        reader.stdin.close()
    return waits


def _read(url: str) -> None:
    """Print how old the first value of each job is, whose id comes on standard input."""
    with Rowcall(url) as jobs:
        for line in sys.stdin:
            began = next(iter(jobs.stream(int(line))))
            print(round((time.time() - float(str(began))) * 1000, 2), flush=True)


def logs(url: str) -> Figures:
    def drained(work: LongWork) -> float:
        work.logging.enqueue_many([{"number": number} for number in range(LOGGED)])
        return work.drained(LOGGED)

    kept, dropped = LongWork(url), LongWork(url, keeps_lines=False)
    with kept.jobs, dropped.jobs:
        figures = in_turns({"kept, jobs/s": lambda: drained(kept), "not kept, jobs/s": lambda: drained(dropped)})
    return {**figures, "ratio (at least 0.85)": figures["kept, jobs/s"] / figures["not kept, jobs/s"]}


MEASURES: dict[str, Callable[[str], Figures]] = {"calls": calls, "streams": streams, "logs": logs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?", help="the database; a new file by default")
    parser.add_argument("--only", choices=MEASURES)
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        _read(options.url)
        return
    gc.set_threshold(*COLLECTED_AFTER)
    with tempfile.TemporaryDirectory() as folder:
        for name in [options.only] if options.only else MEASURES:
            url = options.url or f"sqlite:///{Path(folder) / name}.db"
            for what, figure in MEASURES[name](url).items():
                print(f"{name}: {what}: {figure:,.2f}", flush=True)


if __name__ == "__main__":
    main()
