"""Print how many multixacts many PostgreSQL workers make while they run rounds and send heartbeats.

python -m benchmarks.multixacts --workers 50 --seconds 30
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from benchmarks.bench import Bench, opened
from benchmarks.database import Database, connect
from benchmarks.fill import filling, make_queue
from benchmarks.observer import Observer
from benchmarks.report.table import text_table
from benchmarks.workers import worker_processes

JOBS_PER_SECOND = 5_000
COUNTERS = "select name, blks_zeroed, blks_hit, blks_read, blks_written from pg_stat_slru where name ilike 'multixact%'"
NEXT = "select next_multixact_id::text::bigint, next_multi_offset::text::bigint from pg_control_checkpoint()"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multixacts", description=__doc__)
    parser.add_argument("--workers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    with opened() as bench:
        measure(bench.on("postgres"), given.workers, given.seconds)


def measure(bench: Bench, workers: int, seconds: float) -> None:
    with bench.fresh_site() as site:
        make_queue(site.url)
        with filling(site.url) as fill:
            fill.waiting(round(JOBS_PER_SECOND * (seconds + workers)), "slow_async")
        with (
            closing(Observer(site.url)) as observer,
            closing(connect(site.url)) as database,
            worker_processes(site, options=[f"--processes={workers}"]) as (supervisor,),
        ):
            observer.wait_for_workers(workers, supervisor)
            before, heartbeats = counters(database), beats(database)
            time.sleep(seconds)
            supervisor.check()
            after, heartbeats = counters(database), beats(database) - heartbeats
    rows = [(name, str(before[name]), str(after[name]), str(after[name] - before[name])) for name in after]
    print(text_table([*rows, ("heartbeats", "", "", str(heartbeats))], ("counter", "before", "after", "growth")))


def counters(database: Database) -> dict[str, int]:
    database.rows("checkpoint")  # the next multixact is known as of the last one
    ((next_id, next_offset),) = database.rows(NEXT)
    found = {"next multixact": int(next_id), "next member": int(next_offset)}
    for name, *blocks in database.rows(COUNTERS):
        found |= {
            f"{name} {what}": int(n) for what, n in zip(("zeroed", "hit", "read", "written"), blocks, strict=True)
        }
    return found


def beats(database: Database) -> int:
    return int(database.rows("select sum(heartbeats) from rowcall_worker")[0][0])


if __name__ == "__main__":
    main()
