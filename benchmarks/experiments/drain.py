"""Drains of no-op jobs, each in separate processes, one after the other."""

from __future__ import annotations

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures
from benchmarks.database import path_of
from benchmarks.draining import drain_rate
from benchmarks.workers import report_of


def measure_sqlite(bench: Bench) -> Figures:
    sizes = bench.sizes
    return {
        "ceiling": _in_a_file(bench, "bare", sizes.drain_jobs),
        "async": _rowcall(bench, sizes.drain_jobs),
        "sync": _rowcall(bench, sizes.drain_jobs, use_async=False),
        "huey_default": _in_a_file(bench, "huey_drain", sizes.huey_jobs, "default"),
        "huey_fastest": _in_a_file(bench, "huey_drain", sizes.fastest_huey_jobs, "fastest"),
    }


def measure_postgres(bench: Bench) -> Figures:
    sizes = bench.sizes
    jobs = sizes.postgres_drain_jobs
    return {
        "ceiling": _contestant(bench, "bare", jobs),
        "async": _rowcall(bench, jobs),
        "pgqueuer": _contestant(bench, "pgqueuer", jobs),
        "ceiling_of_two": _contestant(bench, "bare", jobs, processes=2),
        "async_of_two": _rowcall(bench, jobs, processes=2),
        "pgqueuer_of_two": _contestant(bench, "pgqueuer", jobs, processes=2),
        "procrastinate": _contestant(bench, "procrastinate", sizes.procrastinate_jobs),
        "saq": _contestant(bench, "saq", sizes.saq_jobs),
    }


def _rowcall(bench: Bench, jobs: int, *, use_async: bool = True, processes: int = 1) -> float:
    with bench.fresh_site() as site:
        app = open_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.noop_async if use_async else app.noop_sync, jobs)
        return drain_rate(site, ids, processes=processes)


def _contestant(bench: Bench, name: str, jobs: int, *, processes: int = 1) -> float:
    with bench.fresh_site() as site:
        return report_of("contest", name, site.url, jobs, processes)["drain"]


def _in_a_file(bench: Bench, process: str, *arguments: object) -> float:
    with bench.fresh_site() as site:
        return report_of(process, path_of(site.url), *arguments)["drain"]
