"""A prune of very many jobs next to a drain, and single enqueues next to both, each timed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.app import App, enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures, Site
from benchmarks.draining import drain_rate, settle_down
from benchmarks.fill import filling, make_queue
from benchmarks.noop import NUMBER, TO
from benchmarks.workers import background

TASK = "noop_async"
OLD_HOURS = 24 * 100
ENQUEUE_EVERY_SECONDS = 0.01


def measure(bench: Bench) -> Figures:
    return {"drain_alone": _drain(bench), **_drain_during_prune(bench)}


def _drain(bench: Bench) -> float:
    with bench.fresh_site() as site:
        _fill(bench, site)
        app = open_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.noop_async, bench.sizes.drain_during_prune_jobs)
            settle_down(site)
            with enqueueing(app):
                return drain_rate(site, ids, settled_down=False)


def _drain_during_prune(bench: Bench) -> Figures:
    with bench.fresh_site() as site:
        _fill(bench, site)
        app = open_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.noop_async, bench.sizes.drain_during_prune_jobs)
            settle_down(site)
            with background("prune", site.url) as pruning, enqueueing(app) as waits_ms:
                rate = drain_rate(site, ids, settled_down=False)
                still_pruning = pruning.is_running()
            left = app.jobs.prune(dry_run=True).jobs
    pruned = bench.sizes.pruned_jobs - left
    return {
        "drain": rate,
        "longest_enqueue_ms": max(waits_ms),
        "pruned_meanwhile": pruned,
        "still_pruning": float(still_pruning),
    }


def _fill(bench: Bench, site: Site) -> None:
    make_queue(site.url)
    with filling(site.url) as fill:
        fill.finished(bench.sizes.pruned_jobs, TASK, hours_ago=OLD_HOURS)


@contextmanager
def enqueueing(app: App) -> Iterator[list[float]]:
    """One enqueue after the other from a thread, with a pause between; the milliseconds of each."""
    waits_ms: list[float] = []
    stopped = threading.Event()

    def enqueue() -> None:
        while not stopped.wait(ENQUEUE_EVERY_SECONDS):
            began = time.perf_counter()
            app.noop_sync.using(queue="elsewhere", delay=3600).enqueue(NUMBER, TO)
            waits_ms.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=enqueue)
    thread.start()
    try:
        yield waits_ms
    finally:
        stopped.set()
        thread.join()
