"""Compare this tree with other revisions, in one run and in turns.

python -m benchmarks.compare d13cb96 --rounds 7

First the drains: jobs per second of `rowcall work` with its defaults; a ratio above 1 means that this tree is faster.
Then the CPU time per job of the client process; a ratio below 1 means that this tree takes less. CPU time is much
quieter than throughput, so that small losses are seen on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from benchmarks.bench import Bench, opened
from benchmarks.compare_case import CASES
from benchmarks.compare_drains import BASE, DRAINS, OF_BASE, rate
from benchmarks.database import Kind
from benchmarks.statistics import spread
from benchmarks.workers import ROOT, RUN_SECONDS, environment

CASE = Path(__file__).with_name("compare_case.py")
WIDTH = 34

Figures = dict[str, list[list[float]]]
"""For each case, the figures of each tree, this one first, one for each round."""


def main() -> None:
    options = arguments()
    drains = [name for name in DRAINS if name in options.only]
    if BASE not in drains and set(drains) & set(OF_BASE):
        drains.append(BASE)
    cases = [name for name in CASES if name in options.only]
    with opened() as bench:
        trees = {"this tree": ROOT}
        trees |= {revision: unpack(revision, bench.folder / revision) for revision in options.revisions}
        for database in options.database:
            there = bench.on(database)
            if drains:
                take = {one: partial(rate, one, bench=there, scale=options.scale) for one in drains}
                show_drains(database, trees, in_rounds(take, list(trees.values()), options.rounds))
            if cases:
                run = {one: partial(run_case, one, bench=there) for one in cases}
                show_cases(database, trees, in_rounds(run, list(trees.values()), options.rounds))


def unpack(revision: str, folder: Path) -> Path:
    """Write the source of a revision into a folder."""
    archive = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True, timeout=RUN_SECONDS
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def in_rounds(measures: Mapping[str, Callable[[Path], float]], trees: Sequence[Path], rounds: int) -> Figures:
    """Measure all cases in each round, the trees in turns: each round begins with the next tree."""
    figures: Figures = {name: [[] for _ in trees] for name in measures}
    for round_number in range(rounds):
        for name, measure in measures.items():
            for turn in range(len(trees)):
                index = (round_number + turn) % len(trees)
                figures[name][index].append(measure(trees[index]))
        print(f"round {round_number + 1} of {rounds}", file=sys.stderr, flush=True)
    return figures


def run_case(case: str, tree: Path, bench: Bench) -> float:
    with bench.fresh_site() as site, environment(PYTHONPATH=str(tree / "src")):
        done = subprocess.run(
            [sys.executable, CASE, case, site.url], check=True, stdout=subprocess.PIPE, timeout=RUN_SECONDS
        )
    return float(done.stdout)


def show_drains(database: str, trees: Mapping[str, Path], figures: Figures) -> None:
    show_heading(f"{database}, jobs/s", trees)
    for name, (mine, *others) in figures.items():
        show_row(name, mine, [ratio(mine, other) for other in others])
    for name in filter(figures.__contains__, OF_BASE):
        print(f"{name} of {BASE}")
        for tree, rates, bases in zip(trees, figures[name], figures[BASE], strict=True):
            show_row(f"  {tree}", rates, [ratio(rates, bases)])


def show_cases(database: str, trees: Mapping[str, Path], figures: Figures) -> None:
    show_heading(f"{database}, CPU \N{MICRO SIGN}s/job", trees)
    for name, (mine, *others) in figures.items():
        show_row(name, mine, [f"{ratio(mine, other)}, best {min(mine) / min(other):.2f}" for other in others])


def show_heading(what: str, trees: Mapping[str, Path]) -> None:
    of_others = "".join(f"{'of ' + revision:>{WIDTH}}" for revision in list(trees)[1:])
    print(f"{what:<24}{'this tree':>12}{of_others}")


def show_row(name: str, mine: Sequence[float], ratios: Sequence[str]) -> None:
    print(f"{name:<24}{spread(mine).median:>12,.0f}" + "".join(f"{text:>{WIDTH}}" for text in ratios), flush=True)


def ratio(mine: Sequence[float], other: Sequence[float]) -> str:
    median, least, most = spread([a / b for a, b in zip(mine, other, strict=True)])
    return f"{median:.2f} ({least:.2f}-{most:.2f})"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("revisions", nargs="+", help="git revisions to compare with")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each case runs (5)")
    names = [*DRAINS, *CASES]
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="CASE", help=f"of {', '.join(names)}"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of jobs of each drain (1)")
    parser.add_argument("--database", nargs="+", choices=get_args(Kind), default=get_args(Kind))
    return parser.parse_args()


if __name__ == "__main__":
    main()
