"""Two pictures of a section: jobs per second side by side, and every target with what was reached of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks.report.sections import Section
from benchmarks.report.table import short, with_unit
from benchmarks.statistics import spread
from benchmarks.targets import Measured, Target

REACHED, MISSED, INK = "#4f9d69", "#c8553d", "#333333"
LEAST_SCORE, MOST_SCORE = 0.1, 10.0
SHORTER = {
    "1,000,000 finished, 1,000,000 future high-priority and 200,000 waiting": "2.2 million",
    "200,000 waiting jobs of a task this worker does not know": "200,000 of another app",
    "two draining workers and three other producers": "five busy processes",
    "worker's resident memory": "resident memory",
    "drain of no-op async jobs, one process": "drain by one process",
    "drain of no-op async jobs, two processes": "drain by two processes",
    "on two connections at once": "on two connections",
    "on the caller's connection,": "on",
    "jobs have gone through the same table": "jobs through the same table",
}
STYLE: dict[Any, Any] = {"svg.hashsalt": "rowcall", "font.size": 10.0, "text.color": INK, "axes.labelcolor": INK}


def draw_drains(section: Section, measured: Measured, path: Path) -> bool:
    """Bars of jobs per second, with the range over the rounds; nothing if there are none."""
    shown = [
        (bar.label, bar.colour, spread(measured[bar.figure])) for bar in section.drains if measured.get(bar.figure)
    ]
    if not shown:
        return False
    with rc_context(STYLE):
        figure = Figure(figsize=(max(8.5, 1.4 * len(shown)), 4.2), layout="constrained")
        axes = figure.add_subplot()
        for position, (_, colour, values) in enumerate(shown):
            axes.bar(position, values.median, width=0.62, color=colour)
            axes.vlines(position, values.least, values.most, color=INK, linewidth=1)
            axes.annotate(
                short(values.median),
                (position, values.most),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                weight="bold",
            )
        axes.set_xticks(range(len(shown)), [label for label, _, _ in shown])
        axes.set_ylabel("jobs per second")
        axes.set_title(section.drains_title, loc="left", weight="bold")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        _lighten(figure, grid="y")
        _save(figure, path)
    return True


def draw_targets(section: Section, measured: Measured, path: Path) -> bool:
    """Draw each result as a multiple of its target, on a logarithmic scale: right of the line is reached."""
    found = [(target, target.spread(measured)) for target in section.targets if target.limit > 0]
    shown = [(target, values) for target, values in found if values is not None]
    if not shown:
        return False
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 1.2 + 0.34 * len(shown)), layout="constrained")
        axes = figure.add_subplot()
        for position, (target, values) in enumerate(shown):
            score = min(max(target.score(values.median), LEAST_SCORE), MOST_SCORE)
            colour = REACHED if target.reached(values.median) else MISSED
            axes.barh(position, score - 1, left=1, height=0.6, color=colour)
            text = _value_and_limit(target, values.median)
            right = score >= 1
            axes.text(score * (1.04 if right else 0.96), position, text, va="center", ha="left" if right else "right")
        axes.axvline(1, color=INK, linewidth=1)
        axes.set_xscale("log")
        axes.set_xlim(LEAST_SCORE / 8, MOST_SCORE * 14)
        axes.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1 ×", "0.3 ×", "as asked", "3 ×", "10 × or more"])
        axes.set_yticks(range(len(shown)), [_label(target.what, target.measure) for target, _ in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.minorticks_off()
        title = f"{section.heading}: results relative to their targets (right is better)"
        figure.suptitle(title, x=0.01, ha="left", weight="bold")
        _lighten(figure, grid="x")
        _save(figure, path)
    return True


def _label(what: str, measure: str) -> str:
    label = f"{what}, {measure}".replace("`", "")
    for long, short_form in SHORTER.items():
        label = label.replace(long, short_form)
    return label


def _value_and_limit(target: Target, value: float) -> str:
    bound = "at least" if target.at_least else "at most"
    return f"{with_unit(value, target.unit)} ({bound} {with_unit(target.limit, target.unit)})"


def _lighten(figure: Figure, *, grid: str) -> None:
    (axes,) = figure.axes
    axes.set_axisbelow(True)
    axes.grid(axis="y" if grid == "y" else "x", color="#e6e6e6", linewidth=0.8)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, facecolor="white", metadata={"Date": None, "Creator": None})
