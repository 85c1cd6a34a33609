"""Jobs made of ten durable steps each, next to a plain drain."""

from __future__ import annotations

from benchmarks.app import enqueue_jobs
from benchmarks.bench import Bench, Figures
from benchmarks.draining import drain_rate
from benchmarks.flow_app import STEPS, open_flow_app

CONCURRENCY = 100
"""Steps of jobs that run at the same time share commits."""


def measure(bench: Bench) -> Figures:
    return {
        "plain": _drain(bench, bench.sizes.flow_jobs, stepped=False),
        "steps": STEPS * _drain(bench, bench.sizes.step_jobs, stepped=True),
    }


def _drain(bench: Bench, jobs: int, *, stepped: bool) -> float:
    with bench.fresh_site() as site:
        app = open_flow_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.stepped if stepped else app.noop, jobs)
        return drain_rate(site, ids, flows=True, options=[f"--concurrency={CONCURRENCY}"] if stepped else [])
