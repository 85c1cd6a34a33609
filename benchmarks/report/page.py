"""The generated page: tables and pictures for each database, the machine, and how each figure is measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from benchmarks.report.drains import Comparison, what_slows, what_you_get
from benchmarks.report.method import METHOD
from benchmarks.report.sections import SECTIONS, Section, label_of, measured_sections
from benchmarks.report.table import FIGURE_HEADINGS, TARGET_HEADINGS, figure_rows, markdown_table, target_rows
from benchmarks.run import Results
from benchmarks.sizes import FULL


def add_earlier(results: Results, folder: Path) -> dict[str, str]:
    """Add the figures in the folder of experiments that were not measured now, if they still exist.

    Return what they were measured on.
    """
    content = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
    earlier = {name: date for name, date in content["dates"].items() if name not in results.dates}
    for name, figure in content["figures"].items():
        if name.partition(".")[0] in earlier and label_of(name) != name:
            results.measured[name] = figure["values"]
    results.dates |= earlier
    machine: dict[str, str] = content["machine"]
    return machine


def write(results: Results, machine: dict[str, str], folder: Path) -> None:
    """Write README.md, the pictures and figures.json into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for section in SECTIONS:
        for old in folder.glob(f"{section.kind}-*.svg"):
            old.unlink()
    parts = [_part(section, results, folder) for section in measured_sections(results.measured)]
    (folder / "README.md").write_text(page(results, machine, parts), encoding="utf-8")
    (folder / "figures.json").write_text(raw(results, machine), encoding="utf-8")


def page(results: Results, machine: dict[str, str], parts: list[str]) -> str:
    halved = (results.rounds + 1) // 2
    paragraphs = [
        "# Benchmarks",
        *([] if results.sizes == FULL else ["**A trial run with small sizes: do not use these figures.**"]),
        f"Rowcall next to bare loops and other queues, by `make bench`: {results.rounds} rounds (long measurements in"
        f" {halved} of them, the longest in one). Use the ratios: absolute figures depend on the machine. The figures"
        " of every round are in [figures.json](figures.json). To change this page, edit `benchmarks/`.",
        _when(results.dates),
        *(f"Not measured, because of an error: {name}." for name in results.failures),
        *_compared(what_you_get(results.measured)),
        *parts,
        "## Machine",
        "\n".join(f"- {name}: {fact}" for name, fact in machine.items()),
        "## Method",
        METHOD.rstrip(),
        *_compared(what_slows(results.measured)),
    ]
    return "\n\n".join(paragraphs) + "\n"


def _when(dates: dict[str, str]) -> str:
    """Return when the experiments were measured. Those of the first day are not named."""
    days = sorted({*dates.values()}, reverse=True)
    if len(days) < 2:
        return f"Measured on {', '.join(days)}."
    later = [f"{day}: {', '.join(sorted(name for name in dates if dates[name] == day))}" for day in days[:-1]]
    return f"Measured on {'; '.join(later)}; {days[-1]}: all others."


def _compared(sections: list[Comparison]) -> list[str]:
    return [
        paragraph
        for section in sections
        for paragraph in (f"## {section.heading}", section.text, markdown_table(section.rows, section.headings))
    ]


def _part(section: Section, results: Results, folder: Path) -> str:
    """All about one database: its targets, its pictures, its figures."""
    from benchmarks.report.picture import draw_drains, draw_targets  # only here: matplotlib is not a tool of the tests

    measured = results.measured
    drains, targets = f"{section.kind}-drains.svg", f"{section.kind}-targets.svg"
    paragraphs = [f"## {section.heading}", markdown_table(target_rows(section.targets, measured), TARGET_HEADINGS)]
    if draw_drains(section, measured, folder / drains):
        paragraphs.append(f"![Jobs per second on {section.heading}]({drains})")
    if draw_targets(section, measured, folder / targets):
        paragraphs.append(f"![Targets on {section.heading}]({targets})")
    paragraphs += [
        f"### All figures on {section.heading}",
        markdown_table(figure_rows(section.labels, measured), FIGURE_HEADINGS),
    ]
    return "\n\n".join(paragraphs)


def raw(results: Results, machine: dict[str, str]) -> str:
    content = {
        "machine": machine,
        "rounds": results.rounds,
        "dates": results.dates,
        "sizes": dataclasses.asdict(results.sizes),
        "figures": {
            name: {"label": label_of(name), "values": [float(f"{value:.6g}") for value in values]}
            for name, values in results.measured.items()
        },
        "failures": sorted(results.failures),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
