"""Actions on very many jobs next to a drain, and single enqueues next to both, each timed."""

from __future__ import annotations

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures
from benchmarks.draining import drain_rate, settle_down
from benchmarks.experiments.prune import TASK, enqueueing
from benchmarks.fill import filling, make_queue
from benchmarks.processes.bulk import QUEUE
from benchmarks.workers import background


def measure(bench: Bench) -> Figures:
    return {"drain_alone": _drain(bench, acting=False)["drain"], **_drain(bench, acting=True)}


def _drain(bench: Bench, *, acting: bool) -> Figures:
    with bench.fresh_site() as site:
        make_queue(site.url)
        with filling(site.url) as fill:
            fill.future(bench.sizes.bulk_jobs, TASK, priority=0, queue=QUEUE)
        app = open_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.noop_async, bench.sizes.drain_during_prune_jobs)
            settle_down(site)
            if not acting:
                with enqueueing(app):
                    return {"drain": drain_rate(site, ids, settled_down=False)}
            with background("bulk", site.url) as bulk, enqueueing(app) as waits_ms:
                rate = drain_rate(site, ids, settled_down=False)
                still_acting = bulk.is_running()
    return {"drain": rate, "longest_enqueue_ms": max(waits_ms), "still_acting": float(still_acting)}
