"""Drains from a table after many jobs have gone through it, vacuumed only by workers, and by autovacuum as set.

Then a drain of as many jobs next to a reader whose snapshot is older: nothing that is deleted can be vacuumed.
"""

from __future__ import annotations

from contextlib import closing
from statistics import median

import psycopg

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures, Site
from benchmarks.database import connect
from benchmarks.draining import drain_rate
from benchmarks.fill import make_queue

ENDS = 5
_SECONDS = "extract(epoch from {})::float8"
TIMES = f"""
select {_SECONDS.format("min(claimed_at)")},
  {_SECONDS.format("percentile_disc(0.1) within group (order by finished_at)")},
  {_SECONDS.format("percentile_disc(0.9) within group (order by finished_at)")},
  {_SECONDS.format("max(finished_at)")}
from rowcall_job"""


def measure(bench: Bench) -> Figures:
    """Measure drain after drain, each by a new worker: the first few, the last few, and a new table next to them."""
    turns = bench.sizes.churn_jobs // bench.sizes.drain_jobs
    rates, new_table_rates = [], []
    with bench.fresh_site() as site:
        for turn in range(turns):
            if turn >= turns - ENDS:
                new_table_rates.append(_drain_of_a_new_table(bench))
            rates.append(_drain(bench, site))
        table_mb, indexes_mb = _megabytes(site)
    return {
        "first": median(rates[:ENDS]),
        "last": median(rates[-ENDS:]),
        "slowest": min(rates),
        "new_table": median(new_table_rates),
        "jobs": turns * bench.sizes.drain_jobs,
        "table_mb": table_mb,
        "indexes_mb": indexes_mb,
        **_with_reader(bench),
    }


def _with_reader(bench: Bench) -> Figures:
    """Drain a long backlog next to a reader: the rates of its first and of its last tenth, and of a new worker then."""
    with bench.fresh_site() as site, psycopg.connect(site.url) as reader:
        make_queue(site.url)
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("select count(*) from rowcall_ready")
        app = open_app(site.url)
        with app.jobs:
            ids = enqueue_jobs(app.noop_async, bench.sizes.churn_jobs)
        drain_rate(site, ids, settled_down=False)
        with closing(connect(site.url)) as database:
            ((first, tenth, last_tenth, last),) = database.rows(TIMES)
        new_worker = _drain(bench, site)
    tenth_of_jobs = len(ids) / 10
    return {
        "with_reader_first": tenth_of_jobs / (tenth - first),
        "with_reader": tenth_of_jobs / (last - last_tenth),
        "new_worker_with_reader": new_worker,
    }


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
