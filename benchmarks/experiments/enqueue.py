"""Enqueueing: one by one, by 100 tasks at once, and 1,000 in a call, next to bare inserts with the same settings."""

from __future__ import annotations

from benchmarks.bench import Bench, Figures
from benchmarks.workers import report_of


def measure(bench: Bench) -> Figures:
    sizes = bench.sizes
    with bench.fresh_site() as site, bench.fresh_site() as bare_site:
        return report_of(
            "enqueue",
            site.url,
            bare_site.url,
            sizes.single_inserts,
            sizes.gathered_enqueues,
            sizes.bulk_inserts,
        )
