"""What each layer said about each defect: `docs/proof/planted.json`. A layer runs once against a defect.

python -m tests.planted.cell_records docs/proof/planted.json
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple


class Cell(NamedTuple):
    defect: str
    layer: str
    caught: bool
    seconds: int
    revision: str


class CellRecords:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        rows = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else []
        self.cells = {(cell.defect, cell.layer): cell for cell in (Cell(**row) for row in rows)}

    def add(self, cell: Cell) -> None:
        if self._path is None:
            return
        with self._lock:
            self.cells[cell.defect, cell.layer] = cell
            lines = ",\n".join(json.dumps(one._asdict()) for one in sorted(self.cells.values()))
            new = self._path.with_suffix(".new")
            new.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
            os.replace(new, self._path)

    def table(self, defects: Sequence[str], layers: Sequence[str]) -> Iterator[str]:
        """Yield the lines of a table in Markdown, of the defects against which any layer has run."""
        yield f"| defect | {' | '.join(layers)} |"
        yield "| --- " * (len(layers) + 1) + "|"
        for defect in defects:
            cells = [self.cells.get((defect, layer)) for layer in layers]
            if any(cells):
                shown = ("not run" if cell is None else "caught" if cell.caught else "" for cell in cells)
                yield f"| {defect} | {' | '.join(shown)} |"


if __name__ == "__main__":
    from tests.planted.layers import layers
    from tests.planted.table import DEFECTS

    records = CellRecords(Path(sys.argv[1]))
    print("\n".join(records.table([one.name for one in DEFECTS], [layer.name for layer in layers()])))
