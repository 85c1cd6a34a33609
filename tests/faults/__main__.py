"""Print the table of operations, statements and faults: `python -m tests.faults sqlite postgres`."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from rowcall.testing.postgres import MEMORY, PostgresServer, memory_has_room
from rowcall.testing.postgres_database import Databases
from tests.conformance.notes import Notes
from tests.faults.cases import Case, Cases
from tests.faults.injection import Fault, faults_of
from tests.faults.world import PostgresTemplate, SqliteTemplate
from tests.shared_postgres import other_server

DATABASES = ("sqlite", "postgres")


@contextmanager
def all_cases(database: str, server_url: str | None = None) -> Iterator[Cases]:
    """Yield the cases of a database, in a temporary folder; on a new server, without a URL."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY if memory_has_room() else None)))
        notes = Notes(folder / "notes")
        if database == "sqlite":
            yield Cases(SqliteTemplate(folder, notes), folder)
            return
        if server_url is None:
            server_url = stack.enter_context(PostgresServer()).url()
        databases = stack.enter_context(closing(Databases(server_url)))
        template = stack.enter_context(closing(PostgresTemplate(databases, folder, notes)))
        yield Cases(template, folder)


def main() -> None:
    arguments = _arguments()
    logging.disable()
    began, ran, problems = time.monotonic(), 0, 0
    for database in arguments.databases:
        with all_cases(database, other_server()) as cases:
            for row in _rows(cases, database, arguments):
                problems += row.pop("problems", 0)
                ran += row.total()
                if problems and arguments.stop:
                    sys.exit(1)
    print(f"faults: {ran} cases, {problems} problems, {time.monotonic() - began:.0f} s")
    sys.exit(problems > 0)


def _rows(cases: Cases, database: str, arguments: argparse.Namespace) -> Iterator[Counter[str]]:
    """Print a line for each call: its statements, and the cases of each fault; an exclamation mark for a problem."""
    faults = faults_of(database)
    print(f"\n{database:<28} {'statements':>10} " + " ".join(f"{fault:>13}" for fault in faults))
    for call in cases.calls:
        if not call.name.startswith(arguments.only):
            continue
        row: Counter[str] = Counter()
        marks: set[Fault] = set()
        for case in cases.of(call):
            if not is_in_share(case, arguments.share) or (arguments.stop and row["problems"]):
                continue
            row[case.fault] += 1
            for problem in cases.problems(case):
                row["problems"] += 1
                marks.add(case.fault)
                print(f"! {problem}", flush=True)
        numbers = " ".join(f"{row[fault]}{'!' if fault in marks else ''}".rjust(13) for fault in faults)
        print(f"{call.name:<28} {len(cases.healthy(call).sent):>10} {numbers}", flush=True)
        yield row


def is_in_share(case: Case, share: int) -> bool:
    return zlib.crc32(str(case).encode()) % share == 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("databases", nargs="*", choices=DATABASES, default=DATABASES)
    parser.add_argument("--only", default="", metavar="NAME", help="calls whose names begin with this")
    parser.add_argument("--share", type=int, default=1, metavar="N", help="one case of this many")
    parser.add_argument("--stop", action="store_true", help="stop at the first problem")
    return parser.parse_args()


if __name__ == "__main__":
    main()
