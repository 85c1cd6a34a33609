"""A part of the cases of a database, for one of several processes."""

from __future__ import annotations

import itertools
import logging
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.util import Finalize
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from rowcall.testing.mysql import MysqlServer
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.postgres_database import Databases
from rowcall.testing.private_server import MEMORY, memory_has_room
from tests.command_line import check_interrupt
from tests.conformance.notes import Notes
from tests.faults.cases import Case, Cases
from tests.faults.injection import Fault
from tests.faults.world import MysqlTemplate, PostgresTemplate, SqliteTemplate

DATABASES = ("sqlite", "postgres", "mysql")


@contextmanager
def all_cases(database: str, server_url: str | None = None) -> Iterator[Cases]:
    """Yield the cases of a database, in a temporary folder; on a new server, without a URL.

    On MariaDB and MySQL, the server is always a new one: some faults lock all of it.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=MEMORY if memory_has_room() else None)))
        # queues of a server keep liveness files there: those of other programs would be copied for each case
        stack.enter_context(mock.patch.object(tempfile, "tempdir", str(folder)))
        notes = Notes(folder / "notes")
        if database == "sqlite":
            yield Cases(SqliteTemplate(folder, notes), folder)
            return
        if database == "mysql":
            server = stack.enter_context(MysqlServer(in_memory=True))
            yield Cases(stack.enter_context(closing(MysqlTemplate(server, folder, notes))), folder)
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
    """Every `parts`-th case of a call, or a share of these."""

    call: str
    number: int
    parts: int
    share: int


class _Process:
    """What each process keeps: a database with the world in it."""

    cases: Cases
    stack = ExitStack()


def begin(database: str, server_url: str | None) -> None:
    """Build the world in this process."""
    logging.disable()
    _Process.cases = _Process.stack.enter_context(all_cases(database, server_url))
    Finalize(None, _Process.stack.close, exitpriority=1)


def names() -> list[str]:
    """Return the names of the calls. Those of workers come last: they have thousands of cases, and time may end."""
    return [call.name for call in sorted(_Process.cases.calls, key=lambda call: not call.is_steady)]


def run_part(part: Part) -> Row:
    cases = _Process.cases
    (call,) = (call for call in cases.calls if call.name == part.call)
    row = Row(call.name, len(cases.healthy(call).sent), Counter(), defaultdict(list), 0)
    for case in itertools.islice(cases.of(call), part.number, None, part.parts):
        if not is_in_share(case, part.share):
            continue
        check_interrupt()
        found = cases.problems(case)
        row.counts[case.fault] += found is not None
        row = row._replace(not_sent=row.not_sent + (found is None))
        if found:
            row.problems[case.fault] += found
    return row


def is_in_share(case: Case, share: int) -> bool:
    return zlib.crc32(str(case).encode()) % share == 0
