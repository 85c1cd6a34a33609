"""Enqueueing: one by one, by 100 tasks at once, and 1,000 in a call, beside bare inserts with the same pragmas."""

from __future__ import annotations

from benchmarks.bench import Bench, Figures
from benchmarks.workers import report_of


def measure(bench: Bench) -> Figures:
    sizes = bench.sizes
    with bench.fresh_folder() as folder:
        rates = report_of("enqueue", folder, sizes.single_inserts, sizes.gathered_enqueues, sizes.bulk_inserts)
    return {f"enqueue.{name}": rate for name, rate in rates.items()}
