"""Jobs that take turns by a value, and jobs in order; beside a plain drain of as many."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.app import enqueue_jobs
from benchmarks.bench import Bench, Figures
from benchmarks.draining import drain_rate
from benchmarks.flow_app import FlowApp, enqueue_fair, enqueue_ordered, open_flow_app


def measure(bench: Bench) -> Figures:
    jobs, values = bench.sizes.flow_jobs, bench.sizes.fair_values
    return {
        "plain": _drain(bench, lambda app: enqueue_jobs(app.noop, jobs)),
        "fair": _drain(bench, lambda app: enqueue_fair(app, jobs + values)[:jobs]),
        "ordered": _drain(bench, lambda app: enqueue_ordered(app, jobs, bench.sizes.limit_keys)),
    }


def _drain(bench: Bench, enqueue: Callable[[FlowApp], range]) -> float:
    with bench.fresh_site() as site:
        app = open_flow_app(site.url)
        with app.jobs:
            ids = enqueue(app)
        return drain_rate(site, ids, flows=True)
