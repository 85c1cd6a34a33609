"""What slows a drain down: results, limits, order, one attempt, many queues. One of each, beside a plain drain."""

from __future__ import annotations

from benchmarks.app import enqueue_jobs
from benchmarks.bench import Bench, Figures
from benchmarks.draining import flow_drain
from benchmarks.flow_app import (
    enqueue_last_attempts,
    enqueue_limited,
    enqueue_ordered,
    enqueue_to_queues,
)


def measure(bench: Bench) -> Figures:
    sizes = bench.sizes
    jobs, few = sizes.flow_jobs, sizes.one_attempt_jobs
    return {
        "plain": flow_drain(bench, lambda app: enqueue_jobs(app.noop, jobs)),
        "results": flow_drain(bench, lambda app: enqueue_jobs(app.returning, jobs)),
        "limited": flow_drain(bench, lambda app: enqueue_limited(app, jobs, sizes.limit_keys)),
        "ordered": flow_drain(bench, lambda app: enqueue_ordered(app, jobs, sizes.limit_keys)),
        "last_attempts": flow_drain(bench, lambda app: enqueue_last_attempts(app, few)),
        "one_attempt": flow_drain(bench, lambda app: enqueue_jobs(app.noop.using(max_attempts=1), few)),
        "many_queues": flow_drain(bench, lambda app: enqueue_to_queues(app, jobs, sizes.queues)),
    }
