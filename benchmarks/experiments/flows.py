"""Jobs with more than a handler: chains, fan-in, keys, limits, middleware; beside a plain drain of as many."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.app import enqueue_jobs
from benchmarks.bench import Bench, Figures
from benchmarks.draining import drain_rate
from benchmarks.flow_app import (
    FlowApp,
    enqueue_chains,
    enqueue_fan_in,
    enqueue_hops,
    enqueue_last_attempts,
    enqueue_limited,
    open_flow_app,
)
from benchmarks.workers import report_of

FAN_IN = 1_000


def measure(bench: Bench) -> Figures:
    sizes = bench.sizes
    jobs = sizes.flow_jobs
    return {
        "plain": _drain(bench, lambda app: enqueue_jobs(app.noop, jobs)),
        "surrounded": _drain(bench, lambda app: enqueue_jobs(app.surrounded, jobs)),
        "chains": _drain(bench, lambda app: enqueue_chains(app, jobs)),
        "going_on": _drain(bench, lambda app: enqueue_hops(app, jobs)),
        "fan_in": _drain(bench, lambda app: enqueue_fan_in(app, jobs, FAN_IN)),
        "limited": _drain(bench, lambda app: enqueue_limited(app, jobs, sizes.limit_keys)),
        "last_attempts": _drain(bench, lambda app: enqueue_last_attempts(app, jobs)),
        "keyed": _keyed(bench, jobs),
    }


def _drain(bench: Bench, enqueue: Callable[[FlowApp], range]) -> float:
    with bench.fresh_site() as site:
        app = open_flow_app(site.url)
        with app.jobs:
            ids = enqueue(app)
        return drain_rate(site, ids, flows=True)


def _keyed(bench: Bench, jobs: int) -> float:
    with bench.fresh_site() as site:
        return report_of("keyed", site.url, jobs)["keyed"]
