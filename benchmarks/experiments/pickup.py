"""From just before `enqueue` is called until the handler starts, in an idle worker of another process.

Every second handler is async, every second sync. Between two jobs lie 20 to 60 ms, so that the worker sleeps.
"""

from __future__ import annotations

import time

from benchmarks.app import App, open_app
from benchmarks.bench import Bench, Figures
from benchmarks.stamping import idle_worker, wait_for_stamps
from benchmarks.statistics import percentile

WARM_UP = 5
SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS = 0.02, 0.06


def measure(bench: Bench) -> Figures:
    with bench.fresh_folder() as folder:
        path, stamps = folder / "queue.db", folder / "stamps"
        app = open_app(path)
        with idle_worker(path, stamps) as worker, app.jobs:
            called_ns = [_enqueue(bench, app, number) for number in range(bench.sizes.pick_ups + WARM_UP)]
            started = wait_for_stamps(stamps, len(called_ns), worker)
    millis = [(stamp.monotonic_ns - called_ns[stamp.number]) / 1e6 for stamp in started if stamp.number >= WARM_UP]
    return {
        "pickup.p50_ms": percentile(millis, 50),
        "pickup.p99_ms": percentile(millis, 99),
        "pickup.most_ms": max(millis),
    }


def _enqueue(bench: Bench, app: App, number: int) -> int:
    time.sleep(bench.chance.uniform(SHORTEST_GAP_SECONDS, LONGEST_GAP_SECONDS))
    called_ns = time.monotonic_ns()
    (app.stamp_sync if number % 2 else app.stamp_async).enqueue(number)
    return called_ns
