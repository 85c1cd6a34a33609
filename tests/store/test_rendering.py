from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rowcall.store
from rowcall.domain.job import FINISHED, WAITING, Status
from rowcall.domain.lifecycle import TABLE, Move, sources
from rowcall.store.rendering import STATES, literals, render

QUOTED_STATE = re.compile("'(" + "|".join(Status) + ")'")


def sql_texts() -> list[tuple[str, str]]:
    """Return the constant strings of the store's modules, parts of f-strings too, each with where it is."""
    root = Path(rowcall.store.__path__[0])
    return [
        (f"{path.relative_to(root)}:{node.lineno}", node.value)
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def test_no_sql_text_spells_out_a_state() -> None:
    found = [f"{where}: {word}" for where, text in sql_texts() for word in QUOTED_STATE.findall(text)]
    assert found == [], "write <pending>, <waiting> or <to:claim> instead"


def test_the_check_for_states_reads_the_sql() -> None:
    assert any("<to:claim>" in text for _, text in sql_texts())
    assert QUOTED_STATE.findall("status in ('pending', 'running')") == ["pending", "running"]


def test_sets_of_states_are_those_of_the_table() -> None:
    assert set(WAITING) == set(sources(Move.EXPIRE))
    assert set(FINISHED) == set(sources(Move.RERUN))
    assert render("<waiting>", STATES) == "('blocked', 'scheduled', 'pending')"
    assert render("<unfinished>", STATES) == literals((*WAITING, Status.RUNNING))


@pytest.mark.parametrize("move", [move for move in Move if move is not Move.DELETE])
def test_a_target_is_rendered_from_the_table(move: Move) -> None:
    (target,) = {rule.target for rule in TABLE if rule.move is move and rule.target is not rule.source}
    assert render(f"set status = <to:{move}>", STATES) == f"set status = '{target}'"


def test_a_word_that_is_not_known_is_refused() -> None:
    with pytest.raises(KeyError):
        render("select <nothing>", STATES)
    with pytest.raises(ValueError, match="nowhere"):
        render("<to:nowhere>", STATES)
