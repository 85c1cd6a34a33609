"""Switch each lane of the worker off once, and print what it buys, in turns with the worker as it is.

python -m benchmarks.lanes --rounds 5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import psycopg

from benchmarks.bench import Bench, Figures, opened
from benchmarks.database import Kind
from benchmarks.draining import drain_rate
from benchmarks.fill import filling, make_queue
from benchmarks.patches import WITHOUT
from benchmarks.report.table import short, text_table
from benchmarks.statistics import spread
from benchmarks.workers import environment

JOBS, LONG_JOBS = 90_000, 200_000


class Measure(NamedTuple):
    what: str
    kind: Kind
    lanes: tuple[str, ...]
    take: Callable[[Bench, float], Figures]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lanes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each is measured (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of jobs of each drain (1)")
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    with opened() as bench:
        for measure in MEASURES:
            rows += measured(measure, bench.on(measure.kind), options.rounds, options.scale)
    print(text_table(rows, ("lane", "measured", "as it is", "without", "as it is / without", "min–max")))


def measured(measure: Measure, bench: Bench, rounds: int, scale: float) -> list[tuple[str, ...]]:
    """Measure in turns: each round begins with the next lane. Return a row for each lane and figure."""
    variants = ("", *measure.lanes)
    taken: dict[str, list[Figures]] = {lane: [] for lane in variants}
    for number in range(rounds):
        turn = number % len(variants)
        for lane in variants[turn:] + variants[:turn]:
            with environment(**{WITHOUT: lane}):
                taken[lane].append(measure.take(bench, scale))
        print(f"{measure.what}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return [
        _row(lane, f"{measure.what}, {figure}", *([one[figure] for one in taken[name]] for name in ("", lane)))
        for lane in measure.lanes
        for figure in taken[""][0]
    ]


def _row(lane: str, what: str, present: list[float], absent: list[float]) -> tuple[str, ...]:
    median, least, most = spread([a / b for a, b in zip(present, absent, strict=True)])
    rates = (short(spread(values).median) for values in (present, absent))
    return (lane, what, *rates, f"{median:.2f}", f"{least:.2f}–{most:.2f}")


def _drain(bench: Bench, scale: float) -> Figures:
    return _drained(bench, round(JOBS * scale), with_reader=False)


def _sync_drain(bench: Bench, scale: float) -> Figures:
    return _drained(bench, round(JOBS * scale), with_reader=False, task="noop_sync")


def _long_drain(bench: Bench, scale: float) -> Figures:
    return _drained(bench, round(LONG_JOBS * scale), with_reader=False)


def _long_drain_with_reader(bench: Bench, scale: float) -> Figures:
    return _drained(bench, round(LONG_JOBS * scale), with_reader=True)


def _drained(bench: Bench, jobs: int, *, with_reader: bool, task: str = "noop_async") -> Figures:
    with bench.fresh_site() as site, ExitStack() as stack:
        make_queue(site.url)
        with filling(site.url) as fill:
            ids = fill.waiting(jobs, task)
        if with_reader:
            reader = stack.enter_context(psycopg.connect(site.url))
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            reader.execute("select 1 from rowcall_ready limit 1")
        return {"jobs/s": drain_rate(site, ids, settled_down=False)}


MEASURES = (
    Measure("drain on SQLite", "sqlite", ("portions",), _drain),
    Measure("the same with handlers in threads", "sqlite", ("portions",), _sync_drain),
    Measure("drain on PostgreSQL", "postgres", ("settle_thread",), _drain),
    Measure("long drain on PostgreSQL", "postgres", ("resuming",), _long_drain),
    Measure("the same next to an old snapshot", "postgres", ("resuming",), _long_drain_with_reader),
)

if __name__ == "__main__":
    main()
