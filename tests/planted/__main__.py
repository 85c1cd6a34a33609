"""Plant one defect at a time into a copy of the source, and run the layers of tests against it.

python -m tests.planted --only fence --layers kit,faults

With a record, layers that have run against a defect do not run again, and what the others say is added.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from rowcall.base.clock import SYSTEM_CLOCK
from rowcall.testing.postgres import PostgresServer
from rowcall.testing.private_server import MEMORY, memory_has_room
from tests.command_line import INTERRUPTED, positive, record_file
from tests.planted.cell_records import Cell, CellRecords
from tests.planted.defect import Defect, plant, problems_of, revert
from tests.planted.layers import SOUND, Interrupted, Layer, Ran, interrupt, layers, run
from tests.planted.table import DEFECTS
from tests.simulation.seed_records import revision

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "pyproject.toml", "README.md")
MOST_SHOWN = 15


class Row(NamedTuple):
    """A defect, and what each layer said about it."""

    defect: Defect
    ran: dict[str, Ran]

    @property
    def noticed_by(self) -> list[str]:
        return [name for name, ran in self.ran.items() if ran.noticed]


def main() -> None:
    arguments = _arguments()
    chosen = [one for one in DEFECTS if one.name.startswith(tuple(arguments.only.split(",")))]
    stale = [problem for one in DEFECTS for problem in problems_of(one, ROOT)]
    if stale:
        sys.exit("\n".join(stale))
    names = arguments.layers.split(",") if arguments.layers else [layer.name for layer in layers()]
    kit = " ".join(dict.fromkeys(" ".join(one.kit for one in chosen).split()))
    wanted = [layer for layer in layers(kit, patience=arguments.patience) if layer.name in names]
    if unknown := set(names) - {layer.name for layer in wanted}:
        sys.exit(f"there is no layer {', '.join(sorted(unknown))}")
    if not chosen:
        sys.exit(f"there is no defect whose name begins with {arguments.only}")
    for layer in (layer for layer in wanted if not (ROOT / layer.needs).exists()):
        print(f"there is no layer {layer.name} yet: {layer.needs} does not exist")
    wanted = [layer for layer in wanted if (ROOT / layer.needs).exists()]
    began = SYSTEM_CLOCK.timer()
    records, commit = CellRecords(arguments.record), revision() if arguments.record else ""
    with _trees(arguments.at_once) as trees, PostgresServer(in_memory=True) as server:
        garden = Garden(trees, server.url(), arguments.patience)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)
        ended: list[Row] = []
        code = 0
        try:
            if arguments.healthy:
                _check_healthy(wanted, garden)
            rows = _rows(chosen, wanted, garden, records, commit, began + arguments.seconds)
            ended.extend(_shown(row, wanted, verbose=arguments.verbose) for row in rows)
        except (KeyboardInterrupt, Interrupted):
            code = INTERRUPTED
    is_missed = _summary(ended, SYSTEM_CLOCK.timer() - began)
    sys.exit(code or is_missed)


def _rows(
    defects: Sequence[Defect],
    wanted: Sequence[Layer],
    garden: Garden,
    records: CellRecords,
    commit: str,
    until: float,
) -> Iterator[Row]:
    """Print a line for each defect, in the order of the table. `until`: no layer is started after this time."""
    print(f"{'defect':<36} " + " ".join(f"{layer.name:>12}" for layer in wanted), flush=True)

    def planted(defect: Defect) -> Row:
        cells = [records.cells.get((defect.name, layer.name)) for layer in wanted]
        row = Row(defect, {cell.layer: Ran(cell.caught, cell.seconds, "") for cell in cells if cell})
        if all(cells) or SYSTEM_CLOCK.timer() > until:
            return row
        with garden.tree() as tree:
            plant(defect, tree)
            try:
                sound = garden.run([SOUND], tree)
                if sound.noticed:
                    sys.exit(f"{defect.name} is no defect, but a mistake:\n{sound.output[-2000:]}")
                own = {layer.name: layer for layer in layers(defect.kit, defect.calls, garden.patience)}
                for name in (layer.name for layer in wanted if layer.name not in row.ran):
                    if SYSTEM_CLOCK.timer() < until:
                        row.ran[name] = ran = garden.run(own[name].commands, tree)
                        records.add(Cell(defect.name, name, ran.noticed, round(ran.seconds), commit))
            finally:
                revert(defect, tree, ROOT)
        return row

    with ThreadPoolExecutor(garden.trees.qsize()) as threads:
        yield from threads.map(planted, defects)


Trees = SimpleQueue[Path]


class Garden(NamedTuple):
    """Where defects are planted: copies of the repository, which are used by turns, and a server."""

    trees: Trees
    server_url: str
    patience: float

    @contextmanager
    def tree(self) -> Iterator[Path]:
        tree = self.trees.get()
        try:
            yield tree
        finally:
            self.trees.put(tree)

    def run(self, commands: Sequence[Sequence[str]], tree: Path) -> Ran:
        return run(commands, tree, self.server_url, self.patience)


@contextmanager
def _trees(count: int) -> Iterator[Trees]:
    """Yield copies of the repository, in which Python finds Rowcall."""
    trees: Trees = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="planted-", dir=MEMORY if memory_has_room() else None) as folder:
        os.chmod(folder, 0o755)  # a server of the tests may run as another user
        for number in range(count):
            tree = Path(folder) / str(number)
            for name in COPIED:
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                copy(ROOT / name, tree / name)
            _check_import(tree)
            trees.put(tree)
        yield trees


def _check_import(tree: Path) -> None:
    asked = [sys.executable, "-c", "import rowcall; print(rowcall.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    found = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_relative_to(tree):
        sys.exit(f"Python does not import the copy of the source: it finds {found}")


def _check_healthy(wanted: Sequence[Layer], garden: Garden) -> None:
    """A layer that fails without a defect says nothing about one."""

    def healthy(layer: Layer) -> Ran:
        with garden.tree() as tree:
            return garden.run(layer.commands, tree)

    with ThreadPoolExecutor(garden.trees.qsize()) as threads:
        for layer, ran in zip(wanted, threads.map(healthy, wanted), strict=True):
            print(f"without a defect, {layer.name} takes {ran.seconds:.0f} s", flush=True)
            if ran.noticed:
                sys.exit(f"{layer.name} fails without a defect:\n{ran.output[-3000:]}")


def _shown(row: Row, wanted: Sequence[Layer], *, verbose: bool) -> Row:
    runs = [row.ran.get(layer.name) for layer in wanted]
    cells = [f"{'caught' if ran.noticed else '-'} {ran.seconds:.0f} s" if ran else "not run" for ran in runs]
    print(f"{row.defect.name:<36} " + " ".join(f"{cell:>12}" for cell in cells), flush=True)
    for name, ran in row.ran.items():
        if verbose and ran.noticed:
            print("".join(f"    {name}: {line}\n" for line in ran.output.splitlines()[-MOST_SHOWN:]), flush=True)
    return row


def _summary(rows: Sequence[Row], seconds: float) -> bool:
    """Print what was found; return whether a defect was not caught."""
    missed = [row for row in rows if row.ran and not row.noticed_by]
    not_run = [row for row in rows if not row.ran]
    single = [row for row in rows if len(row.noticed_by) == 1]
    for row in single:
        print(f"caught by {row.noticed_by[0]} only: {row.defect.name} ({row.defect.what})")
    for row in missed:
        print(f"NOT CAUGHT: {row.defect.name} ({row.defect.what})")
    print(
        f"planted: {len(rows)} defects, {len(rows) - len(missed) - len(not_run)} caught, {len(single)} by one layer"
        f" only, {len(not_run)} not run, {seconds:.0f} s"
    )
    return bool(missed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAMES", help="defects whose names begin with one of these")
    parser.add_argument("--layers", default="", metavar="NAMES", help="kit, models, faults, simulation, storm")
    parser.add_argument("--at-once", type=positive, default=os.cpu_count() or 1, help="how many defects at a time")
    parser.add_argument("--record", type=record_file, help="a file of what each layer has said about each defect")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no layer after this time")
    parser.add_argument("--patience", type=float, default=1, metavar="TIMES", help="on a busy machine: wait longer")
    parser.add_argument("--verbose", action="store_true", help="show what the layers print")
    parser.add_argument("--no-healthy", dest="healthy", action="store_false", help="trust the layers")
    return parser.parse_args()


if __name__ == "__main__":
    main()
