"""The page of the field names every queue that `make bench-field` runs, and how. Rowcall's part of it works."""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from pathlib import Path

import pytest

from benchmarks.bench import Bench
from benchmarks.contestants import apps
from benchmarks.contestants.field import PEERS
from benchmarks.field.installing import NotInstalled, installed
from benchmarks.field.kills import measure_recovery
from benchmarks.field.measures import MEASURES, measure_drain
from benchmarks.report.field import (
    KILLS,
    SPEED,
    Outcome,
    add_earlier_outcome,
    page,
    run_rows,
    write_field,
)
from benchmarks.report.table import markdown_table
from benchmarks.run import Results
from benchmarks.sizes import FULL, QUICK
from tests.docs.pages import DOCS

PAGE = DOCS / "benchmarks" / "field.md"
APPS = Path(apps.__file__).parent
OURS = next(peer for peer in PEERS if peer.name == "rowcall-sqlite")


def section(heading: str) -> str:
    """Return a section of the page."""
    return PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def functions_of(module: str) -> set[str]:
    tree = ast.parse((APPS / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_page_has_a_row_for_each_queue_that_was_installed() -> None:
    text = PAGE.read_text(encoding="utf-8")
    left_out = set(re.findall(r"^Not installed: ([\w-]+):", text, re.MULTILINE))
    names = [peer.name for peer in PEERS if peer.name not in left_out]
    for heading in ("Speed", "Killed workers"):
        assert re.findall(r"^\| ([\w-]+) \| (?:SQLite|PostgreSQL|Redis) \|", section(heading), re.MULTILINE) == names
    assert "trial run" not in text


def test_the_page_says_how_each_queue_is_run() -> None:
    rows = section("How each queue ran").strip().splitlines()[2:]
    assert rows == markdown_table(run_rows(), [""]).splitlines()[2:], "run `make bench-field` for what has changed"


def test_each_queue_has_an_app_and_each_app_a_queue() -> None:
    modules = {path.stem for path in APPS.glob("*_app.py")} | {"graphile"}
    assert modules == {peer.app for peer in PEERS}
    for peer in PEERS:
        if not peer.npm:
            asked = {"prepare", "enqueue"} | ({"enqueue_many"} if peer.bulk else set())
            assert asked == functions_of(peer.app) & {"prepare", "enqueue", "enqueue_many"}, peer.name


def test_every_package_has_one_version() -> None:
    packages = [package for peer in PEERS if not peer.ours for package in peer.packages]
    assert [package for package in packages if not re.search(r"(==|\w@)\d+\.\d+", package)] == []


def test_a_queue_that_cannot_be_installed_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    on_redis = next(peer for peer in PEERS if peer.service == "Redis")
    on_node = dataclasses.replace(next(peer for peer in PEERS if peer.npm), name="never-installed")
    with pytest.raises(NotInstalled, match="there is no redis-server here"):
        installed(on_redis)
    with pytest.raises(NotInstalled, match="there is no Node here"):
        installed(on_node)


def measured(**others: dict[str, float]) -> Outcome:
    """Return what a run would have measured of Rowcall and of huey."""
    figures = {
        "rowcall-sqlite/drain.rate": [100.0, 300.0, 200.0],
        "rowcall-sqlite/recovery.seconds": [1.5],
        "rowcall-sqlite/pickup.p99_ms": [9.0],
        "huey/drain.rate": [20.0],
        "huey/pickup.p99_ms": [7.0],
        "huey/recovery.lost": [1.0],
        **{f"huey/kills.{name}": [float(number)] for number, name in enumerate(KILLS)},
    }
    dates = {name.partition(".")[0]: "2026-01-02" for name in figures}
    return Outcome(
        Results(3, FULL, figures, dates=dates), {"processor": "one"}, {"rq": "there is no redis-server here"}
    )


def test_the_page_names_the_best_and_what_others_are_better_at() -> None:
    text = page(measured())
    rows = {row.split(" | ")[0]: row.split(" | ")[1:] for row in text.splitlines() if row.startswith("| ")}
    assert "| rowcall-sqlite | SQLite | 1.5 s |  |" in text
    assert "| huey | SQLite | never: lost | 0 | 1 | 2 | 3 | 4 | 5 |" in text
    assert "Not installed: rq: there is no redis-server here." in text
    assert "- pick-up p99, ms: rowcall-sqlite has 9; better: huey (SQLite, 7)." in text
    assert "**200**" in text
    assert "**7**" in text
    assert "100–300" in text
    assert "- no-ops" not in text, rows
    trial = dataclasses.replace(measured().results, sizes=QUICK)
    assert "A trial run" in page(Outcome(trial, {}))


def test_a_part_of_a_run_is_added_to_an_earlier_one(tmp_path: Path) -> None:
    write_field(measured(), tmp_path)
    now = Outcome(
        Results(1, FULL, {"huey/drain.rate": [50.0]}, {"huey/pickup": "it failed"}, dates={"huey/drain": "2026-01-03"}),
        {},
    )
    add_earlier_outcome(now, tmp_path)
    expected = {**measured().results.measured, "huey/drain.rate": [50.0]}
    del expected["huey/pickup.p99_ms"]
    assert now.results.measured == expected
    assert now.results.failures == {"huey/pickup": "it failed"}
    assert now.not_installed == {"rq": "there is no redis-server here"}
    picture = (tmp_path / "field-drains.svg").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in picture
    assert "rowcall-sqlite" in picture


def test_rowcall_is_measured_like_the_others(tmp_path: Path) -> None:
    """The cheapest part of a run: a drain, and a job of a killed worker that runs again."""
    ours = dataclasses.replace(OURS, programs=Path(sys.executable).parent)
    bench = Bench(dataclasses.replace(QUICK, field_share=0.001, field_patience_seconds=20.0), tmp_path)
    assert measure_drain(ours, bench)["rate"] > 0
    assert measure_recovery(ours, bench)["seconds"] > 0


def test_every_measure_has_a_column() -> None:
    names = {column.figure.partition(".")[0] for column in SPEED} | {"recovery", "kills"}
    assert names == {measure.name for measure in MEASURES}
