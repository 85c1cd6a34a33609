"""Print what many PostgreSQL workers cost, idle and busy: statements, lock waits, multixacts, connections, memory.

python -m benchmarks.many_workers --workers 10 50 200 --seconds 30

Each worker is a process that `rowcall work --processes N` forks, with its own connections. Idle workers wait for jobs,
and some jobs are enqueued one by one. Busy workers have a backlog of jobs of 5 ms all the time.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.app import open_app
from benchmarks.bench import Bench, Site, opened
from benchmarks.database import Database, connect
from benchmarks.fill import filling, make_queue
from benchmarks.observer import Observer
from benchmarks.report.table import short, text_table
from benchmarks.statistics import percentile
from benchmarks.workers import WorkerProcess, worker_processes

PICKED_UP, PAUSE_SECONDS = 200, 0.02
SAMPLE_SECONDS = 0.1
MOST_KINDS = 12
JOBS_PER_SECOND = 6_000
COUNTERS = "select name, blks_zeroed, blks_hit, blks_read, blks_written from pg_stat_slru where name ilike 'multixact%'"
NEXT = "select next_multixact_id::text::bigint, next_multi_offset::text::bigint from pg_control_checkpoint()"
WAITS = """
select coalesce(wait_event_type || ' ' || wait_event, 'running'), count(*) from pg_stat_activity
where datname = current_database() and state = 'active' and pid <> pg_backend_pid() group by 1"""
CONNECTIONS = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
BACKENDS = "select pid from pg_stat_activity where datname = current_database()"
TRANSACTIONS = "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
PICK_UPS = """
select extract(epoch from claimed_at - created_at)::float8 * 1000 from rowcall_job
where type = 'noop_async' and claimed_at is not null"""
_STATEMENT = re.compile(r"^[^\t\n]*? LOG:  (?:statement|execute [^:]*): (.*(?:\n\t.*)*)", re.MULTILINE)
Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_workers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[10, 50, 200], help="numbers of processes, each ≤ 256"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="of the idle and of the busy part")
    options = parser.parse_args()
    # hundreds of processes must end with it
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    most_connections = 50 + 8 * max(options.workers)
    with opened(max_connections=most_connections) as bench:
        figures_of = {}
        for workers in options.workers:
            figures_of[workers] = measure(bench.on("postgres"), workers, options.seconds)
    names = list(dict.fromkeys(name for figures in figures_of.values() for name in figures))
    rows = [(name, *(short(figures.get(name, 0.0)) for figures in figures_of.values())) for name in names]
    print(text_table(rows, ("", *(f"{workers} workers" for workers in figures_of))))


def measure(bench: Bench, workers: int, seconds: float) -> Figures:
    with bench.fresh_site() as site:
        make_queue(site.url)
        with (
            closing(Observer(site.url)) as observer,
            closing(connect(site.url)) as database,
            worker_processes(site, options=[f"--processes={workers}", "--log-level=warning"]) as (supervisor,),
        ):
            observer.wait_for_workers(workers, supervisor)
            time.sleep(5)  # their first surveys, and rounds that find nothing
            print(f"{workers} workers have started", flush=True)
            figures = reported(idle(bench, database, supervisor, seconds))
            figures |= reported(picked_up(site, database))
            with filling(site.url, indexes_last=False) as fill:
                fill.waiting(round(JOBS_PER_SECOND * (seconds + 5)), "slow_async")
            supervisor.check()
            return figures | reported(busy(database, supervisor, seconds))


def reported(figures: Figures) -> Figures:
    """Print what a part has found: the next one may take long."""
    print("; ".join(f"{name} {short(value)}" for name, value in figures.items()), flush=True)
    return figures


def idle(bench: Bench, database: Database, supervisor: WorkerProcess, seconds: float) -> Figures:
    with used(database, supervisor) as usage, logged(bench, database) as kinds:
        time.sleep(seconds)
    total = sum(kinds.values())
    figures = {"idle: statements per second": total / seconds} | {
        f"idle: {kind} per second": count / seconds for kind, count in kinds.most_common(MOST_KINDS)
    }
    return figures | {f"idle: {name}": value for name, value in usage.items()}


def picked_up(site: Site, database: Database) -> Figures:
    """Enqueue jobs one by one while all workers wait. Return how long each waited, by the server's clock."""
    app = open_app(site.url)
    with app.jobs:
        for _ in range(PICKED_UP):
            app.noop_async.enqueue(1, "a@example.com")
            time.sleep(PAUSE_SECONDS)
        app.jobs.result(app.noop_async.enqueue(1, "a@example.com"), timeout=60)
    millis = [float(row[0]) for row in database.rows(PICK_UPS)]
    return {f"idle: pick-up p{percent} ms": percentile(millis, percent) for percent in (50, 99)}


def busy(database: Database, supervisor: WorkerProcess, seconds: float) -> Figures:
    waiting, samples, before = Counter[str](), 0, counters(database)
    done = succeeded(database)
    with used(database, supervisor) as usage:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            waiting.update({str(event): int(count) for event, count in database.rows(WAITS)})
            samples += 1
            time.sleep(SAMPLE_SECONDS)
    supervisor.check()
    locks = {name: count for name, count in waiting.items() if name.startswith(("Lock ", "LWLock "))}
    seconds = usage["seconds"]
    figures = {"busy: jobs per second": (succeeded(database) - done) / seconds}
    figures["busy: waiting for locks, mean"] = sum(n for name, n in locks.items() if name.startswith("Lock ")) / samples
    figures |= {f"busy: waiting for {name}, mean": count / samples for name, count in Counter(locks).most_common(4)}
    after = counters(database)
    figures |= {f"busy: {name} per second": (after[name] - before[name]) / seconds for name in after}
    return figures | {f"busy: {name}": value for name, value in usage.items()}


@contextmanager
def used(database: Database, supervisor: WorkerProcess) -> Iterator[Figures]:
    """Measure transactions, processor time, connections and memory of this part. Filled in at its end."""
    usage: Figures = {}
    before, began = _amounts(database, supervisor), time.monotonic()
    yield usage
    after, usage["seconds"] = _amounts(database, supervisor), time.monotonic() - began
    usage |= {f"{name} per second": (value - before[name]) / usage["seconds"] for name, value in after.items()}
    usage |= _sizes(database, supervisor)  # last: it takes seconds to add up the memory of hundreds of processes


def _amounts(database: Database, supervisor: WorkerProcess) -> Figures:
    return {
        "transactions": float(database.rows(TRANSACTIONS)[0][0]),
        "CPU ms of workers": 1000 * sum(map(cpu_seconds, children_of(supervisor.pid))),
        "CPU ms of the server": 1000 * sum(cpu_seconds(pid) for (pid,) in database.rows(BACKENDS)),
    }


def _sizes(database: Database, supervisor: WorkerProcess) -> Figures:
    backends, workers = [pid for (pid,) in database.rows(BACKENDS)], children_of(supervisor.pid)
    return {
        "connections": float(database.rows(CONNECTIONS)[0][0]),
        "MB per worker": sum(map(own_megabytes, workers)) / max(1, len(workers)),
        "MB of the server per connection": sum(map(own_megabytes, backends)) / len(backends),
    }


@contextmanager
def logged(bench: Bench, database: Database) -> Iterator[Counter[str]]:
    """Count the statements of this part by their kind: the server logs all of them."""
    kinds: Counter[str] = Counter()
    log = bench.postgres.log
    start = log.stat().st_size
    _set_logging(database, "all")
    yield kinds
    _set_logging(database, "none")
    with log.open(errors="replace") as lines:
        lines.seek(start)
        kinds.update(kind_of(statement) for statement in _STATEMENT.findall(lines.read()))


def _set_logging(database: Database, what: str) -> None:
    database.rows(f"alter system set log_statement = '{what}'")
    database.rows("select pg_reload_conf()")


def kind_of(statement: str) -> str:
    """Return what a statement is about: its first word, and the first table in it.

    >>> kind_of("update rowcall_worker set heartbeats = heartbeats + 1"), kind_of("BEGIN")
    ('update worker', 'begin')
    """
    words = statement.split(None, 1)
    table = re.search(r"rowcall_(\w+)", statement)
    return f"{words[0].lower()}{f' {table[1]}' if table else ''}".rstrip(";")


def counters(database: Database) -> Mapping[str, int]:
    database.rows("checkpoint")  # the next multixact is known as of the last one
    ((next_id, next_offset),) = database.rows(NEXT)
    figures = {"multixacts": int(next_id), "members of multixacts": int(next_offset)}
    for name, *blocks in database.rows(COUNTERS):
        figures |= {
            f"{name} {what}": int(n) for what, n in zip(("zeroed", "hit", "read", "written"), blocks, strict=True)
        }
    return figures


def succeeded(database: Database) -> int:
    return int(database.rows("select count(*) from rowcall_job where status = 'succeeded'")[0][0])


def children_of(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process; 0 if it has ended."""
    try:
        nanoseconds = [int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(nanoseconds) / 1e9


def own_megabytes(pid: int) -> float:
    """Return the memory of a process, with its share of what it has in common with others; 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / 1e6


if __name__ == "__main__":
    main()
