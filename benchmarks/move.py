"""Move a SQLite queue to PostgreSQL while a producer enqueues: `python -m benchmarks.move [--jobs 1000000]`.

It prints how many rows a second were copied, verified and switched, all included; for how long producers were refused;
and the longest call of `enqueue` in a process that follows, next to its usual time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from statistics import median

from benchmarks.bench import opened
from benchmarks.fill import filling, make_queue
from rowcall import Rowcall

FINISHED_OF_TEN = 9
LEAST_ENQUEUED = 20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.move", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="how many there are before the move (1000000)")
    parser.add_argument("--produce", nargs=2, metavar=("URL", "MOVES_TO"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.produce:
        produce(*arguments.produce)
        return
    with opened() as bench, bench.fresh_site() as source, bench.on("postgres").fresh_site() as target:
        make_queue(source.url)
        with filling(source.url) as fill:
            finished = arguments.jobs * FINISHED_OF_TEN // 10
            fill.finished(finished, "work")
            fill.future(arguments.jobs - finished, "work", priority=0)
        measure(source.url, target.url)


def measure(source: str, target: str) -> None:
    producing = [sys.executable, "-m", "benchmarks.move", "--produce", source, target]
    moving = [sys.executable, "-m", "rowcall", "move", source, target, "--json"]
    with subprocess.Popen(producing, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as producer:
        assert producer.stdout is not None
        producer.stdout.readline()  # it has begun
        moved = json.loads(subprocess.run(moving, stdout=subprocess.PIPE, text=True, check=True).stdout)
        calls = json.loads(producer.communicate("stop\n")[0])
    print(
        f"{moved['rows']:,} rows in {moved['seconds']:.1f} s: {moved['rows'] / moved['seconds']:,.0f} rows/s;"
        f" producers were refused for {moved['held_ms']:.0f} ms; longest enqueue {calls['longest_ms']:.0f} ms"
        f" of {calls['count']:,}, usually {calls['usual_ms']:.1f} ms"
    )


def produce(url: str, moves_to: str) -> None:
    """Enqueue one job after the other until a line comes in."""
    seconds: list[float] = []
    stop = threading.Event()

    def read() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=read, daemon=True).start()
    with Rowcall(url, moves_to=moves_to) as jobs:
        while not stop.is_set():
            began = time.perf_counter()
            jobs.enqueue("work", delay=86_400)
            seconds.append(time.perf_counter() - began)
            if len(seconds) == LEAST_ENQUEUED:
                print("begun", flush=True)
            time.sleep(0.005)
    calls = {"count": len(seconds), "longest_ms": max(seconds) * 1000, "usual_ms": median(seconds) * 1000}
    print(json.dumps(calls), flush=True)


if __name__ == "__main__":
    main()
