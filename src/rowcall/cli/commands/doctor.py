"""`rowcall doctor`: all checks that fit a queue, in a file, in memory or on a server; their results, and what to do."""

from __future__ import annotations

import importlib
import os

import click

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.doctor.finding import CheckResult, Level, ok
from rowcall.cli.doctor.sqlite_file import check_clock, check_file_and_disk, check_sqlite
from rowcall.cli.doctor.sqlite_tables import check_tables
from rowcall.cli.present.console import show
from rowcall.cli.present.findings import advice_lines
from rowcall.cli.present.text_tables import Table, block, text
from rowcall.cli.target import Target, find
from rowcall.overview.formats import counted

_CHECKS = {"postgresql": "rowcall.cli.doctor.server", "mysql": "rowcall.cli.doctor.mysql_server"}
"""The modules with the checks of servers: they import drivers, which not everybody has."""
_STYLES = {Level.OK: "green", Level.WARN: "yellow", Level.PROBLEM: "bold red"}


@queue_command("doctor", "Check a database and its environment, and say what to do.", opened=find)
@click.option("--strict", is_flag=True, help="Count warnings as problems.")
def doctor_command(target: Target, strict: bool) -> Answer:
    """Check a database and its environment, and say what to do. Changes nothing.

    Exit code 1 if there is a problem; with --strict, also if there is a warning.

    With --json: {"path", "ok": true or false, "findings": [{"level": "ok" | "warn" | "problem", "check", "what",
    "advice"}, …]}.
    """
    findings = _examine(target)
    bad = (Level.PROBLEM, Level.WARN) if strict else (Level.PROBLEM,)
    well = all(finding.level not in bad for finding in findings)
    data = {"path": target.queue.database.name, "ok": well, "findings": findings}
    return Answer(data, lambda: _show(findings), well)


def _examine(target: Target) -> list[CheckResult]:
    queue = target.queue
    if queue.config.server is not None:
        checks = importlib.import_module(_CHECKS[queue.config.server.kind])
        return list(checks.check_server(target))
    if queue.config.in_memory:
        return [check_sqlite(), check_clock(queue.clock), ok("file", "in memory: it ends with its process")]
    path = os.path.realpath(queue.database.path)
    findings = list(check_file_and_disk(path, queue.database.side_folder, target.command("migrate"), queue.clock))
    if os.path.isfile(path) and os.access(path, os.R_OK):
        findings += check_tables(path, queue.config.table_prefix, target)
    return findings


def _show(findings: list[CheckResult]) -> None:
    shown = Table("level", "check", "what", right=("level",), whole=("check",), headings=False)
    for finding in findings:
        said = "\n".join([finding.what, *advice_lines(finding.advice)])
        shown.add_row(text(finding.level, _STYLES[finding.level]), finding.check, block(said))
    show(shown)
    show("")
    levels = [finding.level for finding in findings]
    problems, warnings = levels.count(Level.PROBLEM), levels.count(Level.WARN)
    if problems or warnings:
        show(f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}", style="bold")
    else:
        show("no problems", style="bold green")
