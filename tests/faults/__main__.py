"""Print the table of operations, statements and faults: `python -m tests.faults sqlite postgres mysql`.

With a record, calls that it has are left out, and calls whose cases have all run without a problem are added.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from zlib import crc32

from rowcall.testing.postgres import PostgresServer
from tests.command_line import INTERRUPTED, interrupt_at_sigterm, positive, processes, record_file
from tests.faults.call_records import CallRecords
from tests.faults.injection import Fault, faults_of
from tests.faults.parts import DATABASES, Part, Row, begin, names, run_part
from tests.shared_postgres import other_server
from tests.simulation.seed_records import revision


def main() -> None:
    arguments = _arguments()
    interrupt_at_sigterm()
    began, ran, problems, not_sent = time.monotonic(), 0, 0, 0
    records, commit = CallRecords(arguments.record), revision() if arguments.record else ""
    code = 0
    try:
        for database in arguments.databases:
            faults = faults_of(database)
            print(f"\n{database:<28} {'statements':>10} " + " ".join(f"{fault:>13}" for fault in faults), flush=True)
            for row in _rows(database, arguments, records.names(database)):
                ran += row.counts.total()
                not_sent += row.not_sent
                for problem in (problem for found in row.problems.values() for problem in found):
                    problems += 1
                    print(f"! {problem}", flush=True)
                cells = " ".join(
                    f"{row.counts[fault]}{'!' if fault in row.problems else ''}".rjust(13) for fault in faults
                )
                print(f"{row.call:<28} {row.statements:>10} {cells}", flush=True)
                if arguments.share == 1:
                    records.add(database, row, commit)
                if time.monotonic() - began > arguments.seconds:
                    break
    except KeyboardInterrupt:
        code = INTERRUPTED
    print(
        f"faults: {ran} cases, {problems} problems, {not_sent} statements that did not come again,"
        f" {time.monotonic() - began:.0f} s"
    )
    sys.exit(code or problems > 0 or (ran == 0 and not records.calls))


def _rows(database: str, arguments: argparse.Namespace, done: set[str]) -> Iterator[Row]:
    """Return a row for each call that is not done. Several processes run parts of its cases."""
    with ExitStack() as stack:
        server_url = other_server()
        if database == "postgres" and server_url is None:
            server_url = stack.enter_context(PostgresServer(in_memory=True)).url()
        count = arguments.at_once
        # new processes, not forks: each forks children that die
        pool = stack.enter_context(processes(count, begin, database, server_url))
        only = tuple(arguments.only.split(","))
        chosen = [
            name
            for name in pool.submit(names).result()
            if name.startswith(only) and name not in done and crc32(name.encode()) % arguments.calls == 0
        ]
        parts = [Part(name, number, count, arguments.share) for name in chosen for number in range(count)]
        rows = pool.map(run_part, parts)
        for together in zip(*[rows] * count, strict=True):
            row = _together(together)
            yield row
            if row.problems and arguments.stop:
                return


def _together(rows: Sequence[Row]) -> Row:
    counts: Counter[Fault] = Counter()
    problems: dict[Fault, list[str]] = defaultdict(list)
    for row in rows:
        counts += row.counts
        for fault, found in row.problems.items():
            problems[fault] += found
    return Row(rows[0].call, max(row.statements for row in rows), counts, problems, sum(row.not_sent for row in rows))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("databases", nargs="*", choices=DATABASES, default=DATABASES)
    parser.add_argument("--only", default="", metavar="NAMES", help="calls whose names begin with one of these")
    parser.add_argument("--share", type=positive, default=1, metavar="N", help="one case of this many")
    parser.add_argument("--calls", type=positive, default=1, metavar="N", help="one call of this many")
    parser.add_argument("--at-once", type=positive, default=os.cpu_count() or 1, help="how many processes")
    parser.add_argument("--record", type=record_file, help="a file of the calls that have run without a problem")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop at the end of a call after this time")
    parser.add_argument("--stop", action="store_true", help="stop at the first problem")
    return parser.parse_args()


if __name__ == "__main__":
    main()
