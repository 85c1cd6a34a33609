"""Drains of no-op jobs from MariaDB, and a bare loop of the same statements, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from time import perf_counter

from benchmarks.app import enqueue_jobs, open_app
from benchmarks.bench import Bench, Figures, Site, in_turns
from benchmarks.draining import drain_rate
from rowcall.app import queue_of
from rowcall.drivers.mysql.connection import MysqlSession, connect
from rowcall.store.dialect import Dialect
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.ends import Owner, Success
from rowcall.store.statement import Plan

GROUP = 500
LEASE_MS = 600_000
HAND = Owner("bare", 7)


def measure_drain(bench: Bench) -> Figures:
    jobs = bench.sizes.mysql_drain_jobs
    return in_turns({"ceiling": lambda: _bare(bench, jobs), "async": lambda: _rowcall(bench, jobs)})


def _rowcall(bench: Bench, jobs: int) -> float:
    with bench.fresh_site() as site:
        return drain_rate(site, _enqueue(site, jobs))


def _bare(bench: Bench, jobs: int) -> float:
    with bench.fresh_site() as site:
        _enqueue(site, jobs)
        with open_app(site.url).jobs as opened:
            queue = queue_of(opened)
            with closing(connect(site.url, queue.config)) as raw:
                session, claimed, count = MysqlSession(raw, queue.config), list[Ready](), 0
                began = perf_counter()
                while count < jobs:
                    claimed = session.write(_round(queue.dialect, claimed))
                    count += len(claimed)
                session.write(_round(queue.dialect, claimed))
                return jobs / (perf_counter() - began)


def _round(dialect: Dialect, claimed: Sequence[Ready]) -> Plan[list[Ready]]:
    """Settle the last group, and claim the next one."""
    if claimed:
        rows = [Success(job.id, job.lease, job.created_at_ms, 0, 0, "null") for job in claimed]
        yield from dialect.settle_successes(rows, HAND)
    ready = yield from dialect.ready_jobs("default", ["noop_async"], GROUP)
    if ready:
        yield from dialect.claim(ready, [], HAND, LEASE_MS)
    return ready


def _enqueue(site: Site, jobs: int) -> range:
    app = open_app(site.url)
    with app.jobs:
        return enqueue_jobs(app.noop_async, jobs)
