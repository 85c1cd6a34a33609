from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_migrate_says_from_where_to_where(run: Run, app: Path, folder: Path) -> None:
    made = json.loads(run("migrate", "app:jobs", "--json").stdout)
    assert made == {"path": str(folder / "queue.db"), "from": 0, "to": made["to"]}
    assert made["to"] >= 1
    assert run("migrate", "app:jobs").stdout.endswith(f"already at version {made['to']}\n")
    assert "created the tables" in run("migrate", "--url", "sqlite:///other.db").stdout
