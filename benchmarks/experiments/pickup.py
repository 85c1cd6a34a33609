"""From just before a job is enqueued until its handler starts, in an idle worker of another process.

Every second handler is async, every second sync. Between two jobs lie 20 to 60 ms, so that the worker sleeps.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing

from benchmarks.app import App, open_app
from benchmarks.bench import Bench, Figures, Site
from benchmarks.database import Database, connect
from benchmarks.stamping import started_worker, wait_for_stamps
from benchmarks.statistics import percentile

WARM_UP = 5
SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS = 0.02, 0.06
INSERT = "insert into rowcall_job (type, payload) values (?, ?)"


def measure(bench: Bench) -> Figures:
    with bench.fresh_site() as site:
        app = open_app(site.url)
        with app.jobs:
            return _figures(_pick_ups(bench, site, lambda number: _enqueue(app, number)))


def measure_with_plain_sql(bench: Bench) -> Figures:
    with bench.fresh_site() as site, closing(connect(site.url)) as database:
        plain = _figures(_pick_ups(bench, site, lambda number: _insert(database, number)))
    return {**measure(bench), **{f"plain_{name}": value for name, value in plain.items()}}


def _pick_ups(bench: Bench, site: Site, enqueue: Callable[[int], None]) -> list[float]:
    """Milliseconds, one for each job."""
    stamps = site.folder / "stamps"
    called_ns = []
    with started_worker(site, stamps) as worker:
        for number in range(bench.sizes.pick_ups + WARM_UP):
            time.sleep(bench.chance.uniform(SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS))
            called_ns.append(time.monotonic_ns())
            enqueue(number)
        started = wait_for_stamps(stamps, len(called_ns), worker)
    return [(stamp.monotonic_ns - called_ns[stamp.number]) / 1e6 for stamp in started if stamp.number >= WARM_UP]


def _figures(millis: list[float]) -> Figures:
    return {"p50_ms": percentile(millis, 50), "p99_ms": percentile(millis, 99), "most_ms": max(millis)}


def _enqueue(app: App, number: int) -> None:
    (app.stamp_sync if number % 2 else app.stamp_async).enqueue(number)


def _insert(database: Database, number: int) -> None:
    database.rows(INSERT, "stamp_sync" if number % 2 else "stamp_async", json.dumps({"number": number}))
