"""One long drain: the worker's resident memory on the way, and the largest size of the WAL file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from benchmarks.bench import Bench, Figures
from benchmarks.database import path_of
from benchmarks.fill import filling, make_queue
from benchmarks.observer import Observer
from benchmarks.workers import worker_processes

MEGABYTE = 1_000_000


class WalGauge:
    """The largest size a WAL file was seen to have."""

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + "-wal")
        self.most_bytes = 0

    def look(self) -> None:
        if self._path.exists():
            self.most_bytes = max(self.most_bytes, self._path.stat().st_size)


def measure(bench: Bench) -> Figures:
    sizes = bench.sizes
    with bench.fresh_site() as site:
        make_queue(site.url)
        with filling(site.url) as fill:
            ids = fill.waiting(sizes.endurance_jobs, "noop_async")
        gauge = WalGauge(path_of(site.url))
        with closing(Observer(site.url)) as observer, worker_processes(site) as (worker,):
            observer.wait_until_settled(ids[: sizes.memory_early_jobs], worker, each_look=gauge.look)
            early = worker.resident_megabytes()
            observer.wait_until_settled(ids[: sizes.memory_late_jobs], worker, each_look=gauge.look)
            late = worker.resident_megabytes()
            observer.wait_until_settled(ids, worker, each_look=gauge.look)
            end = worker.resident_megabytes()
            observer.succeeded(ids)
    return {
        "memory_early_mb": early,
        "memory_late_mb": late,
        "memory_end_mb": end,
        "wal_mb": gauge.most_bytes / MEGABYTE,
    }
