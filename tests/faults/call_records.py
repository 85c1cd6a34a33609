"""The calls whose cases have all run without a problem: `docs/proof/faults.json`. A call is run once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from tests.faults.parts import Row


class CallRecord(NamedTuple):
    """A call on a database, with all its cases, of one revision."""

    database: str
    call: str
    statements: int
    cases: int
    revision: str


class CallRecords:
    def __init__(self, path: Path | None) -> None:
        self._path = path
        rows = json.loads(path.read_text(encoding="utf-8")) if path and path.exists() else []
        self.calls = [CallRecord(**row) for row in rows]

    def names(self, database: str) -> set[str]:
        return {one.call for one in self.calls if one.database == database}

    def add(self, database: str, row: Row, revision: str) -> None:
        """Add a call that had no problem."""
        if self._path is None or row.problems:
            return
        self.calls.append(CallRecord(database, row.call, row.statements, row.counts.total(), revision))
        lines = ",\n".join(json.dumps(one._asdict()) for one in sorted(self.calls))
        new = self._path.with_suffix(".new")
        new.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        os.replace(new, self._path)
