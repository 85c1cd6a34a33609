"""Drains of no-op jobs, each in separate processes, in turns."""

from __future__ import annotations

import sys

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures, in_turns
from benchmarks.contestants import graphile
from benchmarks.database import path_of
from benchmarks.draining import drain_rate
from benchmarks.workers import report_of

SLOW_SLOTS, SLOW_SECONDS = 100, 0.005


def measure_sqlite(bench: Bench) -> Figures:
    sizes = bench.sizes
    quick = {
        "ceiling": lambda: _in_a_file(bench, "bare", sizes.drain_jobs),
        "async": lambda: _rowcall(bench, sizes.drain_jobs),
        "sync": lambda: _rowcall(bench, sizes.drain_jobs, use_async=False),
        "huey_default": lambda: _in_a_file(bench, "huey_drain", sizes.huey_jobs, "default"),
        "huey_fastest": lambda: _in_a_file(bench, "huey_drain", sizes.fastest_huey_jobs, "fastest"),
    }
    return {**in_turns(quick), "slow_share": _slow_share(bench)}


def measure_postgres(bench: Bench) -> Figures:
    sizes = bench.sizes
    jobs = sizes.postgres_drain_jobs
    quick = {
        "ceiling": lambda: _contestant(bench, "bare", jobs),
        "async": lambda: _rowcall(bench, jobs),
        "ceiling_of_two": lambda: _contestant(bench, "bare", jobs, processes=2),
        "async_of_two": lambda: _rowcall(bench, jobs, processes=2),
    }
    if (problem := graphile.missing()) is None:
        quick["graphile"] = lambda: _contestant(bench, "graphile", jobs)
        quick["graphile_of_two"] = lambda: _contestant(bench, "graphile", jobs, processes=2)
    else:
        print(problem, file=sys.stderr)
    return {
        **in_turns(quick),
        "pgqueuer": _contestant(bench, "pgqueuer", jobs),
        "pgqueuer_of_two": _contestant(bench, "pgqueuer", jobs, processes=2),
        "slow_share": _slow_share(bench),
        "procrastinate": _contestant(bench, "procrastinate", sizes.procrastinate_jobs),
        "saq": _contestant(bench, "saq", sizes.saq_jobs),
    }


def _rowcall(bench: Bench, jobs: int, *, use_async: bool = True, processes: int = 1) -> float:
    with bench.fresh_site() as site:
        app = open_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.noop_async if use_async else app.noop_sync, jobs)
        return drain_rate(site, ids, processes=processes)


def _slow_share(bench: Bench) -> float:
    """The rate of jobs that wait for 5 ms, as a share of what 100 slots allow."""
    with bench.fresh_site() as site:
        app = open_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.slow_async, bench.sizes.drain_jobs)
        return drain_rate(site, ids, options=[f"--concurrency={SLOW_SLOTS}"]) * SLOW_SECONDS / SLOW_SLOTS


def _contestant(bench: Bench, name: str, jobs: int, *, processes: int = 1) -> float:
    with bench.fresh_site() as site:
        return report_of("contest", name, site.url, jobs, processes)["drain"]


def _in_a_file(bench: Bench, process: str, *arguments: object) -> float:
    with bench.fresh_site() as site:
        return report_of(process, path_of(site.url), *arguments)["drain"]
