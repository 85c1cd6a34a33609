"""Jobs with more than a handler: chains, fan-in, keys, middleware; next to a plain drain of as many."""

from __future__ import annotations

from benchmarks.app import enqueue_jobs
from benchmarks.bench import Bench, Figures
from benchmarks.draining import flow_drain
from benchmarks.flow_app import (
    enqueue_chains,
    enqueue_fan_in,
    enqueue_hops,
)
from benchmarks.workers import report_of

FAN_IN = 1_000


def measure(bench: Bench) -> Figures:
    jobs = bench.sizes.flow_jobs
    return {
        "plain": flow_drain(bench, lambda app: enqueue_jobs(app.noop, jobs)),
        "surrounded": flow_drain(bench, lambda app: enqueue_jobs(app.surrounded, jobs)),
        "chains": flow_drain(bench, lambda app: enqueue_chains(app, jobs)),
        "going_on": flow_drain(bench, lambda app: enqueue_hops(app, jobs)),
        "fan_in": flow_drain(bench, lambda app: enqueue_fan_in(app, jobs, FAN_IN)),
        "keyed": _keyed(bench, jobs),
    }


def _keyed(bench: Bench, jobs: int) -> float:
    with bench.fresh_site() as site:
        return report_of("keyed", site.url, jobs)["keyed"]
