"""A worker with nothing to do: its processor time, alone and next to an app that commits, and what it asks a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from benchmarks.bench import Bench, Figures
from benchmarks.database import Database, connect
from benchmarks.stamping import started_worker
from benchmarks.statement_log import StatementLog
from benchmarks.workers import WorkerProcess

COMMITS_A_SECOND = 200
SETTLE_DOWN_SECONDS = 2.0


def measure_sqlite(bench: Bench) -> Figures:
    seconds = bench.sizes.idle_seconds
    with bench.fresh_site() as site, started_worker(site) as worker:
        quiet = _percent_of_a_core(worker, lambda: time.sleep(seconds))
        with _another_app(site.url) as database:
            with_commits = _percent_of_a_core(worker, lambda: _commit(database, seconds))
            rows: int = database.rows("select count(*) from app_note")[0][0]
    return {"quiet_percent": quiet, "with_commits_percent": with_commits, "commits_per_second": rows / seconds}


def measure_postgres(bench: Bench) -> Figures:
    """Processor time first, then, with another worker on another database, the statements that its server logs."""
    seconds = bench.sizes.idle_seconds
    with bench.fresh_site() as site, started_worker(site) as worker:
        time.sleep(SETTLE_DOWN_SECONDS)
        quiet = _percent_of_a_core(worker, lambda: time.sleep(seconds))
    with bench.fresh_site() as site:
        log = StatementLog(bench.postgres, site.url)
        with started_worker(site) as worker:
            time.sleep(SETTLE_DOWN_SECONDS)
            before = log.count()
            time.sleep(seconds)
            worker.check()
            statements = log.count() - before
    return {"quiet_percent": quiet, "statements_per_second": statements / seconds}


def _percent_of_a_core(worker: WorkerProcess, wait: Callable[[], None]) -> float:
    cpu_before, began = worker.cpu_seconds(), time.perf_counter()
    wait()
    worker.check()
    return (worker.cpu_seconds() - cpu_before) / (time.perf_counter() - began) * 100


@contextmanager
def _another_app(url: str) -> Iterator[Database]:
    with closing(connect(url)) as database:
        database.rows("create table app_note (id integer primary key, text text not null)")
        yield database


def _commit(database: Database, seconds: float) -> None:
    began = time.perf_counter()
    for number in range(round(seconds * COMMITS_A_SECOND)):
        database.rows("insert into app_note (text) values ('written for reasons of its own')")
        time.sleep(max(0.0, began + (number + 1) / COMMITS_A_SECOND - time.perf_counter()))
