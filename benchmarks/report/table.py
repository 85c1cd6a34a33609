"""Tables of targets and of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.statistics import Spread, spread
from benchmarks.targets import Measured, Target, Unit

TARGET_HEADINGS = ("what", "target", "median", "min–max", "")
FIGURE_HEADINGS = ("figure", "median", "min–max", "rounds")


def target_rows(targets: Sequence[Target], measured: Measured) -> list[tuple[str, ...]]:
    """Return one row for each target: what, target, median, min–max, verdict."""
    return [_target_row(target, target.spread(measured)) for target in targets]


def figure_rows(labels: Mapping[str, str], measured: Measured) -> list[tuple[str, ...]]:
    """Return one row for each figure: what, median, min–max, rounds."""
    found = [(label, measured[name]) for name, label in labels.items() if measured.get(name)]
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
    verdict = "reached" if target.reached(values.median) else "missed"
    return (target.what, asked, with_unit(values.median, target.unit), between(values), verdict)


def with_unit(value: float, unit: Unit) -> str:
    """Return the value with its unit; a ratio has none."""
    return short(value) if unit in ("", "of", "×") else f"{short(value)} {unit}"
