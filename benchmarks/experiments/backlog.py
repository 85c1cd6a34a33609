"""Drains from tables that hold much else.

Full: finished jobs, future jobs of high priority, and jobs of the same task that wait behind, of lower priority; only
those in front are timed. They are many, because by the end a worker has also claimed some of those behind. Drains from
an empty table take turns with them. Unknown: jobs in front, of higher priority, of a task that this worker does not
have.
"""

from __future__ import annotations

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures, Site, in_turns
from benchmarks.draining import drain_rate
from benchmarks.fill import filling, make_queue, refill

TASK = "noop_async"
BEHIND, AHEAD = -10, 100


def measure(bench: Bench) -> Figures:
    return {**measure_full(bench), "unknown": _unknown(bench)}


def measure_full(bench: Bench) -> Figures:
    return in_turns({"empty": lambda: _empty(bench), "full": lambda: _full(bench)})


def _empty(bench: Bench) -> float:
    with bench.fresh_site() as site:
        return _drain(bench, site)


def _full(bench: Bench) -> float:
    """The same table in every round: what a worker took from behind before it was stopped is put back."""
    sizes = bench.sizes

    def fill_it(site: Site) -> None:
        make_queue(site.url)
        with filling(site.url) as fill:
            fill.finished(sizes.finished_jobs, TASK)
            fill.future(sizes.future_jobs, TASK, priority=AHEAD)
            fill.waiting(sizes.waiting_jobs, TASK, priority=BEHIND)

    site = bench.kept_site("full", fill_it)
    refill(site.url, TASK, sizes.waiting_jobs, priority=BEHIND)
    return _drain(bench, site)


def _unknown(bench: Bench) -> float:
    with bench.fresh_site() as site:
        make_queue(site.url)
        with filling(site.url) as fill:
            fill.waiting(bench.sizes.unknown_jobs, "task_of_another_app", priority=AHEAD)
        return _drain(bench, site)


def _drain(bench: Bench, site: Site) -> float:
    app = open_app(site.url)
    with app.jobs:
        ids = enqueue_jobs(app.noop_async, bench.sizes.backlog_drain_jobs)
    return drain_rate(site, ids)
