"""`rowcall move`: what it says. tests/moving has what it does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rowcall import Rowcall
from tests.cli.conftest import Run

APP = """
from rowcall import Rowcall

jobs = Rowcall("sqlite:///queue.db", table_prefix="shop_", moves_to="sqlite:///new.db")
"""
NEW = "sqlite:///new.db"


@pytest.fixture
def jobs(folder: Path) -> Rowcall:
    (folder / "app.py").write_text(APP, encoding="utf-8")
    with Rowcall("sqlite:///queue.db", table_prefix="shop_") as jobs:
        for _ in range(3):
            jobs.enqueue("work")
        return jobs


def test_an_app_is_moved_with_its_options(jobs: Rowcall, folder: Path, run: Run) -> None:
    would = run("move", "app:jobs", NEW, "--dry-run")
    assert would.stdout == "would move 3 jobs: 3 pending; no attempt runs\n"
    assert not (folder / "new.db").exists()
    done = run("move", "app:jobs", NEW, "--verify", "full")
    assert "moved 3 jobs (3 rows) in" in done.stdout
    assert "counted 3 jobs, compared 3" in done.stdout
    assert [line for line in ("verify: 1 of 1", "switch", "finish") if line not in done.stderr] == []
    with Rowcall(NEW, table_prefix="shop_") as there:
        assert there.stats().by_status["pending"] == 3
    again = json.loads(run("move", "app:jobs", NEW, "--json").stdout)
    assert (again["jobs"], again["verified"]) == (0, {"counted": 0, "compared": 0})
    assert "3" in run("stats", "app:jobs").stdout
    assert "the queue is in" in run("move", "app:jobs", NEW, "--abort").stderr


def test_a_move_that_waits_for_an_attempt_can_be_aborted(jobs: Rowcall, run: Run) -> None:
    (claimed,) = jobs.claim("me", limit=1)
    failed = run("move", "app:jobs", NEW, "--wait", "0s")
    assert failed.exit_code == 1
    assert "1 attempt still ran after 0 s" in failed.stderr
    would = json.loads(run("move", "app:jobs", NEW, "--dry-run", "--json").stdout)
    assert would == {"jobs": 3, "by_status": {"pending": 3}, "running": 1, "copied": 3}
    assert json.loads(run("move", "app:jobs", NEW, "--abort", "--json").stdout) == {"aborted": True}
    jobs.complete(claimed)


def test_wrong_use_is_refused(jobs: Rowcall, run: Run) -> None:
    for words, said in (
        (("app:jobs", NEW, "--dry-run", "--abort"), "give --dry-run or --abort, not both"),
        (("app:jobs", "new.db"), "is not a URL"),
        (("app:jobs", "sqlite:///queue.db"), "names the database that is to be moved"),
    ):
        result = run("move", *words)
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
    jobs.enqueue("work")
