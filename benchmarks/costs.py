"""Where the CPU time of a PostgreSQL server and of its client goes: drains by statement, and a single `enqueue` by what
it consists of.

python -m benchmarks.costs --only fair enqueue

The server's time is that of the backends (/proc/PID/schedstat), the client's that of the thread that asks. It says more
than a rate on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import psycopg

from benchmarks.app import open_app
from benchmarks.bare.postgres import INSERT, PAYLOAD, TABLE
from benchmarks.bench import Bench, opened
from benchmarks.database import connect
from benchmarks.flow_app import BACKLOGS, open_flow_app
from benchmarks.noop import NUMBER, TO
from benchmarks.report.table import text_table
from rowcall.drivers.postgres.connection import Session
from rowcall.store.postgres.dialect import catalogue
from rowcall.store.queries.jobs import INSERT_PLAIN

ENQUEUE, DRAINED = "enqueue", ("plain", "results", "fair")
TURNS, IN_TURN = 30, 100
NAMES = {text: name for name, text in catalogue("rowcall_").texts().items()}
LESS = (
    ("its statement alone", "select 1"),
    ("without the question who listens", "select 1"),
    ("without the trigger for ready rows", "alter table rowcall_job disable trigger rowcall_job_told"),
    ("without any trigger", "alter table rowcall_job disable trigger user"),
)
"""What an `enqueue` consists of: each leaves out one thing more than the one before."""
BACKEND = (
    "select pid from pg_stat_activity where query like '%insert into rowcall_job %'"
    " and datname = current_database() and pid <> pg_backend_pid()"
)


class Cost(NamedTuple):
    server_us: float
    client_us: float
    runs: int = 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    names = (*DRAINED, ENQUEUE)
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="CASE", help=f"of {', '.join(names)}"
    )
    parser.add_argument("--jobs", type=int, default=30_000, help="how many jobs each drain has (30,000)")
    options = parser.parse_args()
    with opened() as bench:
        for name in options.only:
            if name == ENQUEUE:
                show_enqueue(bench.on("postgres"))
            else:
                show_drain(bench.on("postgres"), name, options.jobs)


def show_drain(bench: Bench, kind: str, count: int) -> None:
    with bench.fresh_site() as site, closing(connect(site.url)) as database, open_flow_app(site.url).jobs as jobs:
        BACKLOGS[kind](open_flow_app(site.url), count)
        database.settle_down()
        with measured() as costs:
            jobs.drain()
    every = [(name, costs[name]) for name in sorted(costs, key=lambda name: -costs[name].server_us)]
    every.append(("all", total([cost for _, cost in every])))
    rows = [(name, f"{cost.runs:,}", *(f"{us / count:.2f}" for us in cost[:2])) for name, cost in every]
    print(f"\ndrain, {kind}: {count:,} jobs, CPU \N{MICRO SIGN}s for each")
    print(text_table(rows, ("statement", "runs", "server", "client")), flush=True)


@contextmanager
def measured() -> Iterator[dict[str, Cost]]:
    """Measure what this process asks, by the names of queries."""
    costs: defaultdict[str, Cost] = defaultdict(lambda: Cost(0, 0, 0))
    run, start, commit = Session._execute, Session._start, Session.commit

    def noted(session: Session, name: str, action: Callable[[], Any]) -> Any:
        result, cost = spent(session._raw.info.backend_pid, action)
        costs[name] = total([costs[name], cost])
        return result

    def execute(session: Session, statement: Any, **how: Any) -> Any:
        return noted(session, NAMES.get(statement.sql, "others"), lambda: run(session, statement, **how))

    with (
        patch.object(Session, "_execute", execute),
        patch.object(Session, "_start", lambda session, sql: noted(session, "begin", lambda: start(session, sql))),
        patch.object(Session, "commit", lambda session: noted(session, "commit", lambda: commit(session))),
    ):
        yield costs


def show_enqueue(bench: Bench) -> None:
    """Measure `enqueue`, and what it consists of, in turns. Print the median of each."""
    statement = catalogue("rowcall_").statement(INSERT_PLAIN, "noop_sync", "default", PAYLOAD, 0, 5)
    short = f"{statement.sql.partition('returning')[0]} returning id"
    with ExitStack() as stack:
        urls = [stack.enter_context(bench.fresh_site()).url for _ in range(2 + len(LESS))]
        raw = [stack.enter_context(closing(psycopg.connect(url, autocommit=True))) for url in urls]
        bare, asked, *parts = raw
        bare.execute(TABLE.encode())
        calls = {"a bare INSERT": asking(bare, INSERT, [PAYLOAD])}
        app, *others = (open_app(url) for url in urls[1:])
        stack.enter_context(app.jobs)
        app.noop_sync.enqueue(NUMBER, TO)
        ((pid,),) = asked.execute(BACKEND).fetchall()
        calls["all of `enqueue`"] = pid, lambda: app.noop_sync.enqueue(NUMBER, TO)
        for part, other, (name, change) in zip(parts, others, LESS, strict=True):
            with other.jobs as jobs:
                jobs.migrate()
            part.execute("select set_config('rowcall.notifies', 'after_commit', false)")
            part.execute(change.encode())
            calls[name] = asking(part, statement.sql if part is parts[0] else short, statement.parameters)
        costs: dict[str, list[Cost]] = {name: [] for name in calls}
        for _ in range(TURNS):
            for name, (pid, call) in calls.items():
                costs[name].append(spent(pid, partial(repeat, call))[1])
    rows = [
        (name, *(f"{median(us) / IN_TURN:.1f}" for us in list(zip(*taken, strict=True))[:2]))
        for name, taken in costs.items()
    ]
    print(f"\nsingle {ENQUEUE}: CPU \N{MICRO SIGN}s, with the commit")
    print(text_table(rows, ("", "server", "client")), flush=True)


def repeat(call: Callable[[], object]) -> None:
    for _ in range(IN_TURN):
        call()


def asking(raw: psycopg.Connection[Any], sql: str, parameters: Sequence[Any]) -> tuple[int, Callable[[], object]]:
    """Return the backend of a connection, and a call that runs the statement on it."""
    cursor = psycopg.RawCursor(raw)
    return raw.info.backend_pid, lambda: cursor.execute(sql, parameters, prepare=True)


def spent(backend_pid: int, action: Callable[[], Any]) -> tuple[Any, Cost]:
    server_us, client_us = server_time_us(backend_pid), time.thread_time() * 1e6
    result = action()
    return result, Cost(server_time_us(backend_pid) - server_us, time.thread_time() * 1e6 - client_us)


def server_time_us(backend_pid: int) -> float:
    return int(Path(f"/proc/{backend_pid}/schedstat").read_text().split()[0]) / 1000


def total(costs: Sequence[Cost]) -> Cost:
    return Cost(*(sum(one) for one in zip(*costs, strict=True)))


if __name__ == "__main__":
    main()
