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


class Entry(NamedTuple):
    """Seeds next to each other, in one mode, of one revision."""

    mode: Mode
    first: int
    last: int
    points: int
    revision: str

    @property
    def seeds(self) -> int:
        return self.last - self.first + 1


class SimulationLedger:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        rows = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else []
        self.entries = [Entry(**row) for row in rows]

    def missing(self, mode: Mode, first: int, last: int, most: int) -> Iterator[Part]:
        """Yield the seeds of this range that no entry has, in parts of at most so many."""
        while first <= last:
            at = [entry for entry in self.entries if entry.mode == mode and entry.last >= first]
            here = next((entry for entry in at if entry.first <= first), None)
            if here:
                first = here.last + 1
                continue
            end = min([first + most - 1, last, *(entry.first - 1 for entry in at)])
            yield Part(mode, first, end)
            first = end + 1

    def add(self, report: Report, revision: str) -> None:
        """Add a part that had no problem."""
        part = report.part
        if self._path is None or report.findings:
            return
        self.entries.append(Entry(part.mode, part.first, part.last, report.points, revision))
        self.entries = joined(self.entries)
        lines = ",\n".join(json.dumps(entry._asdict()) for entry in self.entries)
        new = self._path.with_suffix(".new")
        new.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        os.replace(new, self._path)

    def seeds(self, mode: Mode) -> int:
        return sum(entry.seeds for entry in self.entries if entry.mode == mode)


def joined(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries in order, and as one those that are next to each other and of one revision."""
    found: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: (MODES.index(entry.mode), entry.first)):
        before = found[-1] if found else None
        if before and (before.mode, before.last + 1, before.revision) == (entry.mode, entry.first, entry.revision):
            found[-1] = before._replace(last=entry.last, points=before.points + entry.points)
        else:
            found.append(entry)
    return found


def revision() -> str:
    """Return the commit of this tree, and whether files have changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
