"""The doctor reads a file without changing it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Examine, change


def test_it_changes_nothing(app: Path, folder: Path, examine: Examine) -> None:
    change(folder, "create table mine (id integer primary key)")
    before = (folder / "queue.db").read_bytes()
    found = examine()
    assert found.level["tables"] == "problem"
    assert found.level["vacuum"] == "warn"
    assert "journal" not in found.level
    assert (folder / "queue.db").read_bytes() == before
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {"app.py", "queue.db"}
