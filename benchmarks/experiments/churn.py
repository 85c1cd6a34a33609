"""Drains from a table after many jobs have gone through it, vacuumed only by autovacuum with Rowcall's settings.

At the end once more beside a reader whose snapshot is old: nothing that was deleted since can be vacuumed.
"""

from __future__ import annotations

import time
from contextlib import closing
from statistics import median

import psycopg

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures, Site
from benchmarks.database import connect
from benchmarks.draining import drain_rate

ENDS = 3


def measure(bench: Bench) -> Figures:
    """Measure drain after drain, each by a new worker: the first few, the last few, and a new table next to them."""
    turns = bench.sizes.churn_jobs // bench.sizes.drain_jobs
    rates, beside = [], []
    with bench.fresh_site() as site:
        for turn in range(turns):
            if turn >= turns - ENDS:
                beside.append(_drain_of_a_new_table(bench))
            rates.append(_drain(bench, site))
        beside_reader = _beside_reader(bench, site)
        table_mb, indexes_mb = _megabytes(site)
    return {
        "first": median(rates[:ENDS]),
        "last": median(rates[-ENDS:]),
        "slowest": min(rates),
        "beside_reader": beside_reader,
        "new_table": median(beside),
        "jobs": turns * bench.sizes.drain_jobs,
        "table_mb": table_mb,
        "indexes_mb": indexes_mb,
    }


def _beside_reader(bench: Bench, site: Site) -> float:
    """Drain for as long as a reader keeps its snapshot, and return the rate of the last drain."""
    with psycopg.connect(site.url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("select count(*) from rowcall_ready")
        until = time.monotonic() + bench.sizes.snapshot_seconds
        rate = _drain(bench, site)
        while time.monotonic() < until:
            rate = _drain(bench, site)
        return rate


def _drain_of_a_new_table(bench: Bench) -> float:
    with bench.fresh_site() as site:
        return _drain(bench, site)


def _drain(bench: Bench, site: Site) -> float:
    app = open_app(site.url)
    with app.jobs:
        ids = enqueue_jobs(app.noop_async, bench.sizes.drain_jobs)
    return drain_rate(site, ids, settled_down=False)


def _megabytes(site: Site) -> tuple[float, float]:
    with closing(connect(site.url)) as database:
        ((table, indexes),) = database.rows("select pg_table_size('rowcall_job'), pg_indexes_size('rowcall_job')")
    return table / 1e6, indexes / 1e6
