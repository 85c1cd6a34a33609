"""The processor time of a worker with nothing to do: on a quiet file, and beside an app that commits to it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.bench import Bench, Figures
from benchmarks.stamping import idle_worker
from benchmarks.workers import WorkerProcess

COMMITS_A_SECOND = 200


def measure(bench: Bench) -> Figures:
    seconds = bench.sizes.idle_seconds
    with bench.fresh_folder() as folder, idle_worker(path := folder / "queue.db") as worker:
        quiet = _percent_of_a_core(worker, lambda: time.sleep(seconds))
        with closing(_another_app(path)) as database:
            beside = _percent_of_a_core(worker, lambda: _commit(database, seconds))
            rows: int = database.execute("select count(*) from app_note").fetchone()[0]
    return {"idle.quiet_percent": quiet, "idle.beside_percent": beside, "idle.commits_per_second": rows / seconds}


def _percent_of_a_core(worker: WorkerProcess, wait: Callable[[], None]) -> float:
    cpu_before, began = worker.cpu_seconds(), time.perf_counter()
    wait()
    worker.check()
    return (worker.cpu_seconds() - cpu_before) / (time.perf_counter() - began) * 100


def _another_app(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("create table app_note (id integer primary key, text text not null)")
    return database


def _commit(database: sqlite3.Connection, seconds: float) -> None:
    began = time.perf_counter()
    for number in range(round(seconds * COMMITS_A_SECOND)):
        database.execute("insert into app_note (text) values ('written for reasons of its own')")
        time.sleep(max(0.0, began + (number + 1) / COMMITS_A_SECOND - time.perf_counter()))
