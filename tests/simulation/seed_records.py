"""The ranges of seeds that have run without a problem: `docs/proof/simulation.json`. A range is run once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.simulation.parts import Part, Report
from tests.simulation.scenario import MODES, Mode

ROOT = Path(__file__).parents[2]


class SeedRange(NamedTuple):
    """Seeds next to each other, in one mode, of one revision."""

    mode: Mode
    first: int
    last: int
    points: int
    revision: str

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class SeedRecords:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        rows = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else []
        self.ranges = [SeedRange(**row) for row in rows]

    def missing(self, mode: Mode, first: int, last: int, most: int) -> Iterator[Part]:
        """Yield the seeds of this range that no entry has, in parts of at most `most`."""
        while first <= last:
            at = [seeds for seeds in self.ranges if seeds.mode == mode and seeds.last >= first]
            here = next((seeds for seeds in at if seeds.first <= first), None)
            if here:
                first = here.last + 1
                continue
            end = min([first + most - 1, last, *(seeds.first - 1 for seeds in at)])
            yield Part(mode, first, end)
            first = end + 1

    def add(self, report: Report, revision: str) -> None:
        """Add a part that had no problem."""
        part = report.part
        if self._path is None or report.findings:
            return
        self.ranges.append(SeedRange(part.mode, part.first, part.last, report.points, revision))
        self.ranges = joined(self.ranges)
        lines = ",\n".join(json.dumps(seeds._asdict()) for seeds in self.ranges)
        new = self._path.with_suffix(".new")
        new.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        os.replace(new, self._path)

    def count(self, mode: Mode) -> int:
        return sum(seeds.length for seeds in self.ranges if seeds.mode == mode)


def joined(ranges: Sequence[SeedRange]) -> list[SeedRange]:
    """Return the ranges in order. Neighbours of one revision become one."""
    found: list[SeedRange] = []
    for seeds in sorted(ranges, key=lambda seeds: (MODES.index(seeds.mode), seeds.first)):
        before = found[-1] if found else None
        if before and (before.mode, before.last + 1, before.revision) == (seeds.mode, seeds.first, seeds.revision):
            found[-1] = before._replace(last=seeds.last, points=before.points + seeds.points)
        else:
            found.append(seeds)
    return found


def revision() -> str:
    """Return the commit of this tree, and whether files have changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
