"""An `enqueue` inside the caller's own transaction next to a bare INSERT there: the whole of it, and without commit."""

from __future__ import annotations

from benchmarks.bench import Bench, Figures
from benchmarks.workers import report_of


def measure(bench: Bench) -> Figures:
    with bench.fresh_site() as site:
        return report_of("caller", site.url, bench.sizes.caller_transactions, bench.sizes.caller_statements)
