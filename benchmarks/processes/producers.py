"""Processes that enqueue at once, a job at a time: producers URL COUNT SECONDS.

Reads lines: `plain` (SQL) or `enqueue`. After each, all of them enqueue for this many seconds, and the figures are
printed: enqueued per second by all together, and the milliseconds that one took.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier

from benchmarks.app import open_app
from benchmarks.database import connect
from benchmarks.noop import ARGUMENTS, NUMBER, TO
from benchmarks.statistics import percentile

READY_SECONDS = 60.0
END = ""
INSERT = "insert into rowcall_job (type, payload) values (?, ?)"


def main() -> None:
    url, count, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    spawning = multiprocessing.get_context("spawn")
    barrier = spawning.Barrier(count, timeout=READY_SECONDS)
    pipes = [spawning.Pipe() for _ in range(count)]
    for _, theirs in pipes:
        spawning.Process(target=produce, args=(url, seconds, barrier, theirs), daemon=True).start()
    ours = [pipe for pipe, _ in pipes]
    for line in sys.stdin:
        for pipe in ours:
            pipe.send(line.strip())
        millis = [taken for pipe in ours for taken in pipe.recv()]
        figures = {
            "per_second": len(millis) / seconds,
            "p50_ms": percentile(millis, 50),
            "p99_ms": percentile(millis, 99),
        }
        print(json.dumps(figures), flush=True)
    for pipe in ours:
        pipe.send(END)


def produce(url: str, seconds: float, barrier: Barrier, orders: Connection) -> None:
    app = open_app(url)
    payload = json.dumps(ARGUMENTS)
    with app.jobs, closing(connect(url)) as database:
        ways: dict[str, Callable[[], object]] = {
            "enqueue": lambda: app.noop_async.enqueue(NUMBER, TO),
            "plain": lambda: database.rows(INSERT, "noop_async", payload),
        }
        while (order := orders.recv()) != END:
            way = ways[order]
            way()
            barrier.wait()
            orders.send(milliseconds_each(way, seconds))


def milliseconds_each(way: Callable[[], object], seconds: float) -> list[float]:
    millis = []
    deadline = time.perf_counter() + seconds
    while (began := time.perf_counter()) < deadline:
        way()
        millis.append((time.perf_counter() - began) * 1000)
    return millis


if __name__ == "__main__":
    main()
