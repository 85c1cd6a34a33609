"""Jobs that take turns by a value, next to a plain drain of as many."""

from __future__ import annotations

from benchmarks.app import enqueue_jobs
from benchmarks.bench import Bench, Figures
from benchmarks.draining import flow_drain
from benchmarks.flow_app import enqueue_fair


def measure(bench: Bench) -> Figures:
    jobs, values = bench.sizes.flow_jobs, bench.sizes.fair_values
    return {
        "plain": flow_drain(bench, lambda app: enqueue_jobs(app.noop, jobs)),
        "fair": flow_drain(bench, lambda app: enqueue_fair(app, jobs + values, jobs + values)[:jobs]),
    }
