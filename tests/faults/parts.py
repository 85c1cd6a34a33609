"""A part of the cases of a database, for one of several processes."""

from __future__ import annotations

import itertools
import logging
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from rowcall.testing.postgres import MEMORY, PostgresServer, memory_has_room
from rowcall.testing.postgres_database import Databases
from tests.conformance.notes import Notes
from tests.faults.cases import Case, Cases
from tests.faults.injection import Fault
from tests.faults.world import PostgresTemplate, SqliteTemplate

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
            server_url = stack.enter_context(PostgresServer(in_memory=True)).url()
        databases = stack.enter_context(closing(Databases(server_url)))
        template = stack.enter_context(closing(PostgresTemplate(databases, folder, notes)))
        yield Cases(template, folder)


class Row(NamedTuple):
    """What a part of the cases of one call has shown."""

    call: str
    statements: int
    counts: Counter[Fault]
    problems: dict[Fault, list[str]]
    not_sent: int


class Part(NamedTuple):
    """One of several processes, each of which runs a part of the cases."""

    database: str
    server_url: str | None
    number: int
    parts: int
    only: str
    share: int
    stop: bool


def is_in_share(case: Case, share: int) -> bool:
    return zlib.crc32(str(case).encode()) % share == 0


def run_part(part: Part) -> list[Row]:
    logging.disable()
    rows, found_any = [], False
    with all_cases(part.database, part.server_url) as cases:
        for call in cases.calls:
            if not call.name.startswith(part.only):
                continue
            row = Row(call.name, len(cases.healthy(call).sent), Counter(), defaultdict(list), 0)
            for case in itertools.islice(cases.of(call), part.number, None, part.parts):
                if not is_in_share(case, part.share) or (found_any and part.stop):
                    continue
                found = cases.problems(case)
                row.counts[case.fault] += found is not None
                row = row._replace(not_sent=row.not_sent + (found is None))
                for problem in found or ():
                    found_any = True
                    row.problems[case.fault].append(problem)
                    print(f"! {problem}", flush=True)
            rows.append(row)
    return rows
