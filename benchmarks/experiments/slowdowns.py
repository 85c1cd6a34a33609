"""What slows a drain down: results, limits, order, one attempt, many queues. One of each, next to a plain drain."""

from __future__ import annotations

from benchmarks.bench import Bench, Figures
from benchmarks.draining import flow_drain
from benchmarks.flow_app import BACKLOGS, enqueue_last_attempts, enqueue_to_queues


def measure(bench: Bench) -> Figures:
    jobs, queues = bench.sizes.flow_jobs, bench.sizes.queues

    def drain(kind: str) -> float:
        return flow_drain(bench, lambda app: BACKLOGS[kind](app, jobs))

    return {
        **{kind: drain(kind) for kind in ("plain", "results", "limited", "ordered", "one_attempt")},
        "last_attempts": flow_drain(bench, lambda app: enqueue_last_attempts(app, jobs)),
        "many_queues": flow_drain(bench, lambda app: enqueue_to_queues(app, jobs, queues)),
        "queues_in_turn": flow_drain(bench, lambda app: enqueue_to_queues(app, jobs, queues, interleaved=True)),
    }
