"""The page of benchmarks begins with the command of the README, and ends with what slows it down."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.experiments import EXPERIMENTS
from benchmarks.experiments.readme import OPTIONS
from benchmarks.report.drains import SLOWER
from benchmarks.report.labels import POSTGRES_LABELS, README_LABELS, SQLITE_LABELS
from benchmarks.report.page import add_earlier, page, raw
from benchmarks.run import Results
from benchmarks.sizes import FULL

ROOT = Path(__file__).parent.parent.parent
RATES = {"default": 90.0, "silent": 100.0, "all": 45.0}


def test_the_page_begins_with_the_command_of_the_readme_and_ends_with_what_slows_it_down() -> None:
    measured = {
        name: [rate, rate]
        for prefix in ("", "postgres-")
        for name, rate in {
            **{f"{prefix}readme.{figure}": RATES.get(figure, 80.0) for figure in README_LABELS},
            f"{prefix}slowdowns.plain": 120.0,
            f"{prefix}slowdowns.results": 60.0,
        }.items()
    }
    text = page(Results(2, FULL, measured), {"processor": "one"}, ["## SQLite"])
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        *("What you get", "SQLite", "Machine", "Method", "What slows a drain down")
    ]
    first, last = text.partition("## SQLite")[0], text.partition("## What slows a drain down")[2]
    rows = [row for row in first.splitlines() if row.startswith("| ")][2:]
    assert rows[:2] == [
        "| `rowcall work app:jobs`, as in the README | 90 | 0.90 | 90 | 0.90 |",
        "| without log lines: `--log-level warning` | 100 | 1.00 | 100 | 1.00 |",
    ]
    assert "| each job returns a result, a small object | 60 | 0.50 | 60 | 0.50 |" in last
    assert "| a log line for each job: `--log-jobs all` | 45 | 0.50 | 45 | 0.50 |" in last


def test_the_command_of_the_readme_is_measured_first_and_with_its_defaults() -> None:
    assert re.search(r"^rowcall work app:jobs *(#.*)?$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert list(OPTIONS)[:2] == ["default", "silent"]
    assert OPTIONS["default"] == ()
    assert EXPERIMENTS[0].name == "readme"
    assert OPTIONS.keys() == README_LABELS.keys()


def test_all_that_slows_a_drain_down_is_measured_on_both_databases() -> None:
    figures = {figure for pair in SLOWER.values() for figure in pair}
    assert figures <= SQLITE_LABELS.keys()
    assert {f"postgres-{figure}" for figure in figures} <= POSTGRES_LABELS.keys()
    causes = " ".join(SLOWER)
    assert [
        cause for cause in ("result", "log", "limit", "order", "one attempt", "queues") if cause not in causes
    ] == []


def test_a_partial_run_keeps_what_other_experiments_measured(tmp_path: Path) -> None:
    known = next(name for name in SQLITE_LABELS if name.startswith("idle."))
    dates = {"readme": "2026-01-01", "idle": "2026-01-01"}
    earlier = Results(5, FULL, {"readme.default": [1.0], known: [2.0], "idle.gone": [3.0]}, dates=dates)
    now = Results(5, FULL, {"readme.default": [9.0]}, dates={"readme": "2026-01-02"})
    (tmp_path / "figures.json").write_text(raw(earlier, {}))
    add_earlier(now, tmp_path)
    assert now.measured == {"readme.default": [9.0], known: [2.0]}
    assert "Measured on 2026-01-02: readme; 2026-01-01: all others." in page(now, {}, [])
