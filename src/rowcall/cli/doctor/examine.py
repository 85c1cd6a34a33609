"""All checks that fit a queue: in a file, in memory or on a server."""

from __future__ import annotations

import os

from rowcall.cli.doctor.finding import Finding, ok
from rowcall.cli.doctor.sqlite_file import check_clock, check_file_and_disk, check_sqlite
from rowcall.cli.doctor.sqlite_tables import check_tables
from rowcall.cli.target import Target


def examine(target: Target) -> list[Finding]:
    queue = target.queue
    if queue.config.server is not None:
        from rowcall.cli.doctor.server import check_server  # needs psycopg, which not everybody has

        return list(check_server(target))
    if queue.config.in_memory:
        return [check_sqlite(), check_clock(queue.clock), ok("file", "in memory: it ends with its process")]
    path = os.path.realpath(queue.database.path)
    findings = list(check_file_and_disk(path, queue.database.side_folder, target.command("migrate"), queue.clock))
    if os.path.isfile(path) and os.access(path, os.R_OK):
        findings += check_tables(path, queue.config.table_prefix, target)
    return findings
