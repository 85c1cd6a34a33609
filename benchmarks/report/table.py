"""The table of targets, and the table of figures."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.statistics import Spread, spread
from benchmarks.targets import TARGETS, Measured, Target, Unit

HEADINGS = ("what", "asked for", "median", "min–max", "")

NAMES = {
    "drain.ceiling": "drain, bare ceiling, jobs/s",
    "drain.async": "drain, Rowcall, async, jobs/s",
    "drain.sync": "drain, Rowcall, sync in threads, jobs/s",
    "drain.huey_default": "drain, huey at its default durability, jobs/s",
    "drain.huey_fastest": "drain, huey at its fastest, jobs/s",
    "enqueue.bare_single": "bare autocommitted INSERT, rows/s",
    "enqueue.single": "single `enqueue`, jobs/s",
    "enqueue.gathered": "`aenqueue`, 100 tasks at once, jobs/s",
    "enqueue.bare_bulk": "bare bulk insert, 1,000 in a transaction, rows/s",
    "enqueue.bulk": "`enqueue_many` of 1,000, jobs/s",
    "backlog.empty": "drain, nothing else in the table, jobs/s",
    "backlog.full": "drain, much else in the table, jobs/s",
    "backlog.unknown": "drain, behind jobs of an unknown task, jobs/s",
    "pickup.p50_ms": "pick-up, p50, ms",
    "pickup.p99_ms": "pick-up, p99, ms",
    "pickup.most_ms": "pick-up, longest, ms",
    "delay.p50_ms": "lateness of delayed jobs, p50, ms",
    "delay.p99_ms": "lateness of delayed jobs, p99, ms",
    "delay.most_ms": "lateness of delayed jobs, longest, ms",
    "delay.least_ms": "lateness of delayed jobs, shortest, ms",
    "idle.quiet_percent": "idle worker, % of a core",
    "idle.beside_percent": "idle worker beside an app that commits, % of a core",
    "idle.commits_per_second": "commits a second of that app",
    "endurance.memory_early_mb": "resident memory after 50,000 jobs, MB",
    "endurance.memory_late_mb": "resident memory after 200,000 jobs, MB",
    "endurance.memory_end_mb": "resident memory after 500,000 jobs, MB",
    "endurance.wal_mb": "WAL file at its largest, MB",
    "crowd.p50_ms": "single `enqueue` in a crowd, p50, ms",
    "crowd.p99.9_ms": "single `enqueue` in a crowd, p99.9, ms",
    "crowd.most_ms": "single `enqueue` in a crowd, longest, ms",
    "crowd.errors": "errors in that crowd",
    "crowd.enqueues": "enqueues timed in that crowd",
    "crowd.others_enqueued": "enqueues by the other producers meanwhile",
    "crowd.left_waiting": "jobs still waiting at its end",
}


def target_rows(measured: Measured) -> list[tuple[str, ...]]:
    """One row for each target: what, asked for, median, min–max, verdict."""
    return [_target_row(target, target.spread(measured)) for target in TARGETS]


def figure_rows(measured: Measured) -> list[tuple[str, ...]]:
    """One row for each figure: what, median, min–max, rounds."""
    found = [(label, measured[name]) for name, label in NAMES.items() if measured.get(name)]
    return [(label, short(spread(values).median), between(spread(values)), str(len(values))) for label, values in found]


def text_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [headings, *rows]]
    return "\n".join(line.rstrip() for line in [lines[0], "-" * len(lines[0]), *lines[1:]])


def markdown_table(rows: Sequence[Sequence[str]], headings: Sequence[str]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def short(value: float) -> str:
    """
    >>> short(23456.7), short(12.345), short(0.4567)
    ('23,457', '12.3', '0.457')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def between(values: Spread) -> str:
    return f"{short(values.least)}–{short(values.most)}"


def _target_row(target: Target, values: Spread | None) -> tuple[str, ...]:
    asked = f"{'at least' if target.at_least else 'at most'} {with_unit(target.limit, target.unit)} {target.measure}"
    if values is None:
        return (target.what, asked, "not measured", "", "")
    verdict = "reached" if target.reached(values.median) else "MISSED"
    return (target.what, asked, with_unit(values.median, target.unit), between(values), verdict)


def with_unit(value: float, unit: Unit) -> str:
    """Ratios need no sign beside the words that follow them."""
    return short(value) if unit in ("", "of", "×") else f"{short(value)} {unit}"
