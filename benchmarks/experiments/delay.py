"""From `run_at` until the handler starts, for jobs that fall due at random milliseconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from benchmarks.app import open_app
from benchmarks.bench import Bench, Figures
from benchmarks.stamping import started_worker, wait_for_stamps
from benchmarks.statistics import percentile

FIRST_IN_SECONDS_PER_JOB = 0.005


def measure(bench: Bench) -> Figures:
    count, over = bench.sizes.delayed_jobs, bench.sizes.delayed_over_seconds
    first_in = 0.5 + count * FIRST_IN_SECONDS_PER_JOB
    with bench.fresh_site() as site:
        stamps = site.folder / "stamps"
        app = open_app(site.url)
        with started_worker(site, stamps) as worker, app.jobs:
            first_at = datetime.now(UTC) + timedelta(seconds=first_in)
            due = []
            for number in range(count):
                run_at = first_at + timedelta(milliseconds=bench.chance.randrange(round(over * 1000)))
                due.append(app.stamp_async.using(run_at=run_at).enqueue(number).run_at.timestamp())
            if datetime.now(UTC) >= first_at:
                raise RuntimeError("the delayed jobs were not all written before the first was due")
            time.sleep(first_in + over)
            started = wait_for_stamps(stamps, count, worker)
    millis = [stamp.wall_ns / 1e6 - due[stamp.number] * 1000 for stamp in started]
    return {
        "p50_ms": percentile(millis, 50),
        "p99_ms": percentile(millis, 99),
        "most_ms": max(millis),
        "least_ms": min(millis),
    }
