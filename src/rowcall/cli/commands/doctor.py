"""`rowcall doctor`: every check, what it found, what to do."""

from __future__ import annotations

import os
import sys

import click

from rowcall.cli.doctor.content import check_content
from rowcall.cli.doctor.finding import Finding, Level, ok
from rowcall.cli.doctor.place import check_clock, check_place, check_sqlite
from rowcall.cli.doctor.service import Asked
from rowcall.cli.present.output import console, has_unicode, print_json, table, text
from rowcall.cli.target import app_argument, find, json_option, queue_of, url_option
from rowcall.queue.core import Core

_MARKS = {Level.OK: ("ok", "green"), Level.WARN: ("warn", "yellow"), Level.PROBLEM: ("problem", "bold red")}


@click.command("doctor", short_help="Say what is wrong, and what to do.")
@app_argument
@url_option
@json_option
def doctor_command(app: str | None, url: str | None, as_json: bool) -> None:
    """Say what is wrong with a database or its surroundings, and what to do. Changes nothing.

    Exit code 1 if there is a problem; a warning is none.

    With --json: {"path", "ok": true or false, "findings": [{"level": "ok" | "warn" | "problem", "check", "what",
    "advice"}, …]}.
    """
    queue = queue_of(find(app, url))
    findings = examine(queue, Asked(app, url, frozenset(queue.tasks)))
    well = all(finding.level != Level.PROBLEM for finding in findings)
    if as_json:
        print_json({"path": queue.database.name, "ok": well, "findings": findings})
    else:
        _print(findings)
    if not well:
        sys.exit(1)


def examine(queue: Core, asked: Asked) -> list[Finding]:
    if queue.config.server is not None:
        from rowcall.cli.doctor.server import check_server  # needs psycopg, which only a server's URL asks for

        return list(check_server(queue.config, asked))
    if queue.config.in_memory:
        return [check_sqlite(), check_clock(), ok("file", "in memory: it lives and dies with its process")]
    path = os.path.realpath(queue.database.path)
    findings = list(check_place(path, queue.database.side_folder, asked.command("migrate")))
    if os.path.isfile(path) and os.access(path, os.R_OK):
        findings += check_content(path, queue.config.table_prefix, asked)
    return findings


def _print(findings: list[Finding]) -> None:
    shown = table("level", "check", "what", right=("level",), whole=("check",))
    shown.show_header = False
    arrow = "→" if has_unicode() else "->"
    for finding in findings:
        mark, style = _MARKS[finding.level]
        said = f"{finding.what}\n{arrow} {finding.advice}" if finding.advice else finding.what
        shown.add_row(text(mark, style), text(finding.check), text(said))
    out = console()
    out.print(shown)
    problems = sum(finding.level == Level.PROBLEM for finding in findings)
    warnings = sum(finding.level == Level.WARN for finding in findings)
    out.print()
    if problems or warnings:
        out.print(f"{_counted(problems, 'problem')}, {_counted(warnings, 'warning')}", style="bold")
    else:
        out.print("all is well", style="bold green")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
