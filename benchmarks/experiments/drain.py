"""Drains of no-op jobs, each in a process of its own, one after the other."""

from __future__ import annotations

from benchmarks.app import App, enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures
from benchmarks.draining import drain_rate
from benchmarks.workers import report_of


def measure(bench: Bench) -> Figures:
    sizes = bench.sizes
    return {
        "drain.ceiling": _other(bench, "bare", sizes.drain_jobs),
        "drain.async": _rowcall(bench, use_async=True),
        "drain.sync": _rowcall(bench, use_async=False),
        "drain.huey_default": _other(bench, "huey_drain", sizes.huey_jobs, "default"),
        "drain.huey_fastest": _other(bench, "huey_drain", sizes.fastest_huey_jobs, "fastest"),
    }


def _rowcall(bench: Bench, *, use_async: bool) -> float:
    with bench.fresh_folder() as folder:
        path = folder / "queue.db"
        app: App = open_app(path)
        with app.jobs:
            ids = enqueue_jobs(app.noop_async if use_async else app.noop_sync, bench.sizes.drain_jobs)
        return drain_rate(path, ids)


def _other(bench: Bench, process: str, *arguments: object) -> float:
    with bench.fresh_folder() as folder:
        return report_of(process, folder / "other.db", *arguments)["drain"]
