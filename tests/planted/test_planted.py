"""The table of defects fits the source. `make planted` runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import suite
from tests.planted.cell_records import Cell, CellRecords
from tests.planted.defect import PACKAGE, Defect, Edit, defect, plant, problems_of, revert
from tests.planted.layers import layers
from tests.planted.table import DEFECTS

ROOT = Path(__file__).parents[2]
FEWEST = 25


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda planted: planted.name)
def test_each_edit_fits_the_source_and_compiles(planted: Defect) -> None:
    assert list(problems_of(planted, ROOT)) == []
    for file in {edit.file for edit in planted.edits}:
        text = (ROOT / PACKAGE / file).read_text(encoding="utf-8")
        for edit in planted.edits:
            text = text.replace(edit.old, edit.new) if edit.file == file else text
        compile(text, file, "exec")


def test_there_are_enough_of_them() -> None:
    assert len({one.name for one in DEFECTS}) == len(DEFECTS) >= FEWEST


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda planted: planted.name)
def test_the_kit_has_the_classes_that_are_named(planted: Defect) -> None:
    assert [
        name for name in planted.kit.split() if not hasattr(suite, f"Test{name}") and not (ROOT / name).exists()
    ] == []


def test_an_edit_that_does_not_fit_is_a_problem() -> None:
    gone = Defect("gone", "Fence", "", (Edit("queue.py", "no such text", ""),))
    (problem,) = problems_of(gone, ROOT)
    assert "this text 0 times" in problem


def test_a_tree_is_as_before_after_a_defect(tmp_path: Path) -> None:
    file = PACKAGE / "a.py"
    for root in ("copy", "original"):
        (tmp_path / root / file).parent.mkdir(parents=True)
        (tmp_path / root / file).write_text("value = 1\n")
    planted = defect("one", "Fence", "", ("a.py", "1", "2"))
    plant(planted, tmp_path / "copy")
    assert (tmp_path / "copy" / file).read_text() == "value = 2\n"
    revert(planted, tmp_path / "copy", tmp_path / "original")
    assert (tmp_path / "copy" / file).read_text() == "value = 1\n"


def test_layers_begin_with_the_kit_and_end_with_the_storm() -> None:
    assert [layer.name for layer in layers()] == ["kit", "models", "faults", "simulation", "storm"]


def test_a_record_is_kept_and_shown(tmp_path: Path) -> None:
    record = tmp_path / "planted.json"
    CellRecords(record).add(Cell("two", "kit", True, 3, "abc"))
    CellRecords(record).add(Cell("two", "models", False, 1, "abc"))
    assert list(CellRecords(record).table(["one", "two"], ["kit", "models", "storm"])) == [
        "| defect | kit | models | storm |",
        "| --- | --- | --- | --- |",
        "| two | caught |  | not run |",
    ]


def test_an_unknown_layer_is_refused() -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "tests.planted", "--layers", "kit,magic"], cwd=ROOT, capture_output=True, text=True
    )
    assert refused.returncode != 0
    assert "magic" in refused.stderr
