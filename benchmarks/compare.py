"""Compare the CPU time per job of this tree with that of other revisions, in one run and in turns.

python -m benchmarks.compare d13cb96 --rounds 7

A figure below 1 means that this tree takes less CPU time than the other. CPU time of the client process is much
quieter than throughput, so that small losses are seen on a machine that others use, too.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import get_args

from benchmarks.compare_case import CASES
from benchmarks.database import Kind
from benchmarks.statistics import spread
from benchmarks.workers import ROOT
from rowcall.testing.postgres import PostgresServer

CASE = Path(__file__).with_name("compare_case.py")
RUN_SECONDS = 300.0
FILE_NUMBERS = count()


def main() -> None:
    given = arguments()
    with tempfile.TemporaryDirectory(prefix="rowcall-compare-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o711)  # a server that root starts runs as another user
        trees = {revision: unpack(revision, folder / revision) for revision in given.revisions}
        server = stack.enter_context(PostgresServer()) if "postgres" in given.database else None
        print(f"{'':24}" + "".join(f"{'of ' + revision:>38}" for revision in trees))
        for database in given.database:
            for case in given.only:
                new_url = server.create_database if server and database == "postgres" else partial(new_file, folder)
                mine, *others = measure(case, [ROOT, *trees.values()], given.rounds, new_url)
                ratios = [ratio(mine, other) for other in others]
                print(f"{database:<9} {case:<14}" + "".join(f"{text:>38}" for text in ratios), flush=True)


def unpack(revision: str, folder: Path) -> Path:
    """Write the source of a revision into a folder."""
    archive = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True, timeout=RUN_SECONDS
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def new_file(folder: Path) -> str:
    return f"sqlite:///{folder}/{next(FILE_NUMBERS)}.db"


def measure(case: str, trees: Sequence[Path], rounds: int, new_url: Callable[[], str]) -> list[list[float]]:
    """Return the figures of each tree, measured in turns: each round begins with the next tree."""
    figures: list[list[float]] = [[] for _ in trees]
    for round_number in range(rounds):
        for turn in range(len(trees)):
            index = (round_number + turn) % len(trees)
            figures[index].append(run_case(case, trees[index], new_url()))
    return figures


def run_case(case: str, tree: Path, url: str) -> float:
    done = subprocess.run(
        [sys.executable, CASE, case, url],
        env=dict(os.environ, PYTHONPATH=str(tree / "src")),
        check=True,
        stdout=subprocess.PIPE,
        timeout=RUN_SECONDS,
    )
    return float(done.stdout)


def ratio(mine: Sequence[float], other: Sequence[float]) -> str:
    median, least, most = spread([a / b for a, b in zip(mine, other, strict=True)])
    return f"{median:.2f} ({least:.2f}-{most:.2f}), best {min(mine) / min(other):.2f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("revisions", nargs="+", help="git revisions to compare with")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how often each case runs (5)")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES), metavar="CASE")
    parser.add_argument("--database", nargs="+", choices=get_args(Kind), default=get_args(Kind))
    return parser.parse_args()


if __name__ == "__main__":
    main()
