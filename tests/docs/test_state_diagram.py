from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rowcall.domain.job import Status
from rowcall.domain.lifecycle import TABLE, Move, Rule

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def draw_states() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_states", DOCS / "draw_states.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_drawn_from_the_table_of_today(draw_states: ModuleType) -> None:
    page = (DOCS / "tables.md").read_text()
    assert draw_states.drawn(page) == page, "run: make docs"


def test_every_state_and_every_move_is_drawn(draw_states: ModuleType) -> None:
    drawing = draw_states.diagram(TABLE)
    assert [status for status in Status if status not in drawing] == []
    assert [move for move in Move if move not in drawing and move is not Move.DELETE] == []


def test_another_table_gives_another_drawing(draw_states: ModuleType) -> None:
    changed = (*TABLE, Rule(Status.SUCCEEDED, Move.CLAIM, Status.RUNNING))
    assert "succeeded --> running: claim" in draw_states.diagram(changed)
    assert draw_states.diagram(changed) != draw_states.diagram(TABLE)


def test_a_page_that_lost_its_marks_is_not_overwritten(draw_states: ModuleType) -> None:
    with pytest.raises(SystemExit, match="has lost the lines"):
        draw_states.drawn("# The states of a job\n")
