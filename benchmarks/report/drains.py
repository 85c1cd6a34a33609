"""The first and the last section of the page: what users get, and what slows it down."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.report.labels import README_LABELS
from benchmarks.report.table import short
from benchmarks.targets import Measured

FIRST = """\
No-op async jobs that wait in the table, one worker process, started as the README says; then the same without log
lines, and with other choices of them. The log goes to a file. "Of": the rate as a part of the one without log lines."""

LAST = """\
No-op async jobs again, and what costs more than a plain job. "Of": the rate as a part of the plain drain next to it,
with the same options."""

SLOWER = {
    "each job returns a result, a small object": ("slowdowns.results", "slowdowns.plain"),
    "a log line for each job: `--log-jobs all`": ("readme.all", "readme.default"),
    "the same as JSON: `--log-format json`": ("readme.all_json", "readme.default"),
    "a limit: one at a time for each of 10,000 keys": ("slowdowns.limited", "slowdowns.plain"),
    "order: `ordered_by=`, 10,000 values": ("slowdowns.ordered", "slowdowns.plain"),
    "one attempt: every tenth job has `max_attempts=1`": ("slowdowns.last_attempts", "slowdowns.plain"),
    "one attempt: every job has `max_attempts=1`": ("slowdowns.one_attempt", "slowdowns.plain"),
    "many queues: 1,000, with as many jobs in each": ("slowdowns.many_queues", "slowdowns.plain"),
    "many queues: 1,000, whose jobs were written in turns": ("slowdowns.queues_in_turn", "slowdowns.plain"),
}
"""For each cause, its figure and the one to compare with."""

DATABASES = {"SQLite": "", "PostgreSQL": "postgres-"}


class Comparison(NamedTuple):
    """A section: what was measured for each cause, on both databases."""

    heading: str
    text: str
    headings: list[str]
    rows: list[list[str]]


def what_you_get(measured: Measured) -> list[Comparison]:
    """Return the section about the README's command, or none if it was not measured."""
    compared = [(label, f"readme.{figure}", "readme.silent") for figure, label in README_LABELS.items()]
    return _section("What you get", FIRST, "command", compared, measured)


def what_slows(measured: Measured) -> list[Comparison]:
    """Return the section about what slows a drain down, or none if nothing of it was measured."""
    plain = ("nothing: a plain drain", "slowdowns.plain", "slowdowns.plain")
    compared = [plain, *((label, *figures) for label, figures in SLOWER.items())]
    return _section("What slows a drain down", LAST, "what", compared, measured)


def _section(
    heading: str, text: str, what: str, compared: Sequence[tuple[str, str, str]], measured: Measured
) -> list[Comparison]:
    headings = [what, *(text for name in DATABASES for text in (f"{name}, jobs/s", "of"))]
    rows = _rows(compared, measured)
    return [Comparison(heading, text, headings, rows)] if rows else []


def _rows(compared: Sequence[tuple[str, str, str]], measured: Measured) -> list[list[str]]:
    """Return a row for each cause that was measured: its rate and its ratio, on each database."""
    rows = [
        [label, *(text for prefix in DATABASES.values() for text in _cells(prefix + figure, prefix + base, measured))]
        for label, figure, base in compared
    ]
    return [row for row in rows if any(row[1:])]


def _cells(figure: str, base: str, measured: Measured) -> tuple[str, str]:
    values, others = measured.get(figure), measured.get(base)
    if not values or not others:
        return "", ""
    ratios = [one / other for one, other in zip(values, others, strict=True)]
    return short(median(values)), f"{median(ratios):.2f}"
