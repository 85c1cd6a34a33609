"""Print how fast MariaDB or MySQL drains: `python -m benchmarks.mysql_drain --jobs 20000`.

The bare loop claims and settles as many jobs by the same statements, in groups on one connection: without a worker,
handlers, counts and what may follow an end. Both use a private server that waits for the disk at each commit. Pick-up
is the time from `enqueue` to the start of the handler in an idle worker of the same process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.noop import ARGUMENTS, MANY
from rowcall import AsyncTask, Rowcall
from rowcall.app import queue_of
from rowcall.drivers.mysql.connection import MysqlSession, connect
from rowcall.store.dialect import Dialect
from rowcall.store.queries.claims import Ready
from rowcall.store.queries.ends import Owner, Success
from rowcall.store.statement import Plan
from rowcall.testing.mysql import DURABLE_SETTINGS, MysqlServer

GROUP = 500
PICKED_UP = 100
LEASE_MS = 600_000
HAND = Owner("bare", 7)


def declare(queue: Rowcall) -> AsyncTask[[int, str], None]:
    @queue.task
    async def noop(n: int, to: str) -> None: ...

    return noop


def enqueue(url: str, jobs: int) -> None:
    with Rowcall(url) as queue:
        noop = declare(queue)
        for start in range(0, jobs, MANY):
            noop.enqueue_many([ARGUMENTS] * min(MANY, jobs - start))


def bare_rate(url: str, jobs: int) -> float:
    """Return the jobs per second of the bare loop."""
    enqueue(url, jobs)
    with Rowcall(url) as opened:
        queue = queue_of(opened)
        assert queue.config.server is not None
        with closing(connect(url, queue.config)) as raw:
            session, claimed, count = MysqlSession(raw, queue.config), list[Ready](), 0
            began = time.perf_counter()
            while count < jobs:
                claimed = session.write(_round(queue.dialect, claimed))
                count += len(claimed)
            session.write(_round(queue.dialect, claimed))
            return jobs / (time.perf_counter() - began)


def _round(dialect: Dialect, claimed: Sequence[Ready]) -> Plan[list[Ready]]:
    """Settle the last group, and claim the next one."""
    if claimed:
        rows = [Success(job.id, job.lease, job.created_at_ms, 0, 0, "null") for job in claimed]
        yield from dialect.settle_successes(rows, HAND)
    ready = yield from dialect.ready_jobs("default", ["noop"], GROUP)
    if ready:
        yield from dialect.claim(ready, [], HAND, LEASE_MS)
    return ready


def drain_rate(url: str, jobs: int) -> float:
    enqueue(url, jobs)
    with Rowcall(url) as queue:
        declare(queue)
        began = time.perf_counter()
        assert queue.drain().succeeded == jobs
        return jobs / (time.perf_counter() - began)


def pick_up_ms(url: str) -> list[float]:
    """Return the milliseconds from each enqueue to its start."""
    waited: list[float] = []
    with Rowcall(url) as queue:

        @queue.task
        def stamp(at: float) -> None:
            waited.append((time.perf_counter() - at) * 1000)

        with queue.worker():
            for _ in range(PICKED_UP):
                queue.result(stamp.enqueue(time.perf_counter()), timeout=10)
                time.sleep(0.02)
    return sorted(waited)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="where the server keeps its data, on the disk to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rowcall-bench-", dir=options.folder) as folder:
        Path(folder).chmod(0o755)
        with MysqlServer(Path(folder, "server"), settings=DURABLE_SETTINGS) as server:
            bare = bare_rate(server.create_database(), options.jobs)
            rate = drain_rate(server.create_database(), options.jobs)
            waited = pick_up_ms(server.create_database())
    print(f"bare loop        {bare:8,.0f} jobs/s")
    print(f"drain, Rowcall   {rate:8,.0f} jobs/s, {rate / bare:.2f} of the bare loop (target: 0.5)")
    print(f"pick-up, p50     {statistics.median(waited):8.1f} ms")
    print(f"pick-up, p99     {waited[int(len(waited) * 0.99) - 1]:8.1f} ms")


if __name__ == "__main__":
    main()
