"""Drains from tables that hold much else.

Full: finished jobs, future jobs of high priority, and jobs of the same task that wait behind, of lower priority; only
those in front are timed. Unknown: jobs in front, of higher priority, of a task that this worker does not have.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures
from benchmarks.draining import drain_rate
from benchmarks.fill import filling, make_queue, refill

TASK = "noop_async"
BEHIND, AHEAD = -10, 100


def measure(bench: Bench) -> Figures:
    return {
        "backlog.empty": _empty(bench),
        "backlog.full": _full(bench),
        "backlog.unknown": _unknown(bench),
    }


def _empty(bench: Bench) -> float:
    with bench.fresh_folder() as folder:
        path = folder / "queue.db"
        make_queue(path)
        return _drain(bench, path)


def _full(bench: Bench) -> float:
    """The same file in every round: what a worker took from behind before it was stopped is put back."""
    sizes, path = bench.sizes, bench.kept("full.db")
    if not path.exists():
        make_queue(path)
        with filling(path) as fill:
            fill.finished(sizes.finished_jobs, TASK)
            fill.future(sizes.future_jobs, TASK, priority=AHEAD)
            fill.waiting(sizes.waiting_jobs, TASK, priority=BEHIND)
    else:
        refill(path, TASK, sizes.waiting_jobs, priority=BEHIND)
    return _drain(bench, path)


def _unknown(bench: Bench) -> float:
    with bench.fresh_folder() as folder:
        path = folder / "queue.db"
        make_queue(path)
        with filling(path) as fill:
            fill.waiting(bench.sizes.unknown_jobs, "task_of_another_app", priority=AHEAD)
        return _drain(bench, path)


def _drain(bench: Bench, path: Path) -> float:
    app = open_app(path)
    with app.jobs:
        ids = enqueue_jobs(app.noop_async, bench.sizes.drain_jobs)
    return drain_rate(path, ids)
