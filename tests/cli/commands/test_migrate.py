from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rowcall.store.sqlite.schema import NEWEST_VERSION
from tests.cli.conftest import Run
from tests.upgrades.product import LATER_VERSION, later_product

pytestmark = pytest.mark.no_tables


def test_migrate_says_from_where_to_where(run: Run, app: Path, folder: Path) -> None:
    made = json.loads(run("migrate", "app:jobs", "--json").stdout)
    assert made == {"path": str(folder / "queue.db"), "from": 0, "to": made["to"]}
    assert made["to"] >= 1
    assert run("migrate", "app:jobs").stdout.endswith(f"already at version {made['to']}\n")
    assert "created the tables" in run("migrate", "--url", "sqlite:///other.db").stdout


def test_a_dry_run_says_what_would_be_created_and_creates_nothing(run: Run, app: Path, folder: Path) -> None:
    before = set(folder.iterdir())
    said = run("migrate", "app:jobs", "--dry-run").stdout
    assert f"would create the tables, version {NEWEST_VERSION}, with" in said
    assert "lock nothing" in said
    planned = json.loads(run("migrate", "app:jobs", "--dry-run", "--json").stdout)
    assert (planned["from"], planned["to"], planned["locked_seconds"]) == (0, NEWEST_VERSION, 0)
    assert any(step["statement"].startswith("create table rowcall_job (") for step in planned["steps"])
    assert all(step["lock"] is None for step in planned["steps"])
    assert set(folder.iterdir()) - before <= {folder / "__pycache__"}


def test_a_dry_run_says_what_an_update_would_lock_and_changes_nothing(run: Run, app: Path, folder: Path) -> None:
    run("migrate", "app:jobs")
    said = run("migrate", "app:jobs", "--dry-run").stdout
    assert said.endswith(f"the tables are up to date, at version {NEWEST_VERSION}: nothing to do\n")
    assert json.loads(run("migrate", "app:jobs", "--dry-run", "--json").stdout)["steps"] == []
    before = (folder / "queue.db").read_bytes()
    with later_product():
        said = run("migrate", "app:jobs", "--dry-run").stdout
        planned = json.loads(run("migrate", "app:jobs", "--dry-run", "--json").stdout)
    assert f"would update the tables from version {NEWEST_VERSION} to {LATER_VERSION}" in said
    assert re.search(r"alter table rowcall_job add column future text +write +rowcall_job +0 +<1 ms", said)
    assert "others can read, and wait to write" in said
    assert planned["steps"][0] == {
        "version": LATER_VERSION,
        "name": "from the future",
        "statement": "alter table rowcall_job add column future text",
        "table": "rowcall_job",
        "lock": "write",
        "rows": 0,
        "seconds": 0.0,
        "locked_seconds": 0.0,
    }
    assert (folder / "queue.db").read_bytes() == before


def test_a_dry_run_refuses_newer_tables(run: Run, app: Path) -> None:
    with later_product(oldest=LATER_VERSION):
        run("migrate", "app:jobs")
    refused = run("migrate", "app:jobs", "--dry-run")
    assert refused.exit_code == 1
    assert "a newer Rowcall made them; install that version here" in refused.stderr
