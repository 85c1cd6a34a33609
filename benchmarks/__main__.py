"""Measure Rowcall beside the bare database and beside huey, print the table, and write it to docs/benchmarks."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.experiments import EXPERIMENTS
from benchmarks.machine import facts
from benchmarks.report.page import write
from benchmarks.report.table import HEADINGS, figure_rows, target_rows, text_table
from benchmarks.run import run
from benchmarks.sizes import FULL, QUICK
from benchmarks.workers import ROOT

PUBLISHED = ROOT / "docs" / "benchmarks"
TRIED = ROOT / "build" / "benchmarks"


def main() -> int:
    given = arguments()
    if given.list:
        print("\n".join(f"{experiment.name:<10} {experiment.title}" for experiment in EXPERIMENTS))
        return 0
    chosen = [experiment for experiment in EXPERIMENTS if not given.only or experiment.name in given.only]
    # only a whole run is worth publishing
    output: Path = given.output or (TRIED if given.quick or given.only else PUBLISHED)
    with tempfile.TemporaryDirectory(prefix="rowcall-bench-", dir=given.folder) as folder:
        machine = facts(Path(folder))
        for name, fact in machine.items():
            say(f"{name}: {fact}")
        results = run(chosen, QUICK if given.quick else FULL, given.rounds, Path(folder), say)
    write(results, machine, output)
    print()
    print(text_table(figure_rows(results.measured), ("figure", "median", "min–max", "rounds")))
    print()
    print(text_table(target_rows(results.measured), HEADINGS))
    print()
    for name, text in results.failures.items():
        print(f"{name} could not be measured: {text}")
    place = output.relative_to(ROOT) if output.is_relative_to(ROOT) else output
    print(f"Written to {place} after {results.seconds:.0f} s.")
    if given.quick:
        print("A quick run shows that all works; its figures mean nothing.")
    return 1 if results.failures else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that all works")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="only these experiments")
    parser.add_argument("--list", action="store_true", help="name the experiments, and end")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often each runs (5, with --quick 2)")
    parser.add_argument("--folder", type=Path, help="where to put the databases: a folder on the disk to measure")
    parser.add_argument(
        "--output", type=Path, help="where to write to (docs/benchmarks; parts of it: build/benchmarks)"
    )
    given = parser.parse_args()
    if given.rounds is None:
        given.rounds = 2 if given.quick else 5
    if given.rounds < 1:
        parser.error("--rounds wants 1 or more")
    return given


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
