"""The catalogue is checked when it is loaded, and encodes what it is given."""

from __future__ import annotations

from types import ModuleType

import pytest

from rowcall.store import catalogue as catalogue_module
from rowcall.store.catalogue import Catalogue, CatalogueError
from rowcall.store.statement import Change, Ids, Int, Json, Query, Text, as_is, number_from_row

GET = Query("get", (Ids, Json, Text), number_from_row)
SHARED = Query("shared", (Int,), number_from_row, text="select <one> + $1")
ELSEWHERE = Query("elsewhere", (Int,), as_is, only=("other",))
DROP = Change("drop", (Int,), text="delete from numbers where n = $1")


@pytest.fixture(autouse=True)
def topics(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rowcall.store.numbers.queries")
    vars(module).update(GET=GET, SHARED=SHARED, ELSEWHERE=ELSEWHERE, DROP=DROP)
    monkeypatch.setattr(catalogue_module, "TOPICS", {"numbers": module})


def texts(**named: str) -> ModuleType:
    module = ModuleType("rowcall.store.lite.numbers")
    vars(module).update(named)
    return module


def render(text: str) -> str:
    return text.replace("<one>", "1")


def test_a_query_becomes_a_statement_with_encoded_values() -> None:
    catalogue = Catalogue("lite", [texts(get="select $1, $2, $3", _PART="x", CONSTANT="y")], render)
    statement = catalogue.statement(GET, (1, 2), {"a": None}, "b")
    assert (statement.sql, statement.parameters) == ("select $1, $2, $3", ("[1,2]", '{"a":null}', "b"))
    assert catalogue.statement(SHARED, 2).sql == "select 1 + $1"


def test_ask_makes_values_of_rows() -> None:
    catalogue = Catalogue("lite", [texts(get="select $1, $2, $3")], render)
    plan = catalogue.ask(SHARED, 2)
    assert next(plan).parameters == (2,)
    with pytest.raises(StopIteration) as ended:
        plan.send([(3,), (4,)])
    assert ended.value.value == [3, 4]


def test_a_query_of_other_databases_runs_nothing() -> None:
    catalogue = Catalogue("lite", [texts(get="select $1, $2, $3")], render)
    with pytest.raises(StopIteration) as ended:
        next(catalogue.ask(ELSEWHERE, 1))
    assert ended.value.value == []


def test_changes_are_counted_in_the_words_of_the_database() -> None:
    catalogue = Catalogue("lite", [texts(get="select $1, $2, $3")], render, count_changes="count ({})")
    assert catalogue.texts()["drop"] == "count (delete from numbers where n = $1)"
    assert catalogue.texts()["shared"] == "select 1 + $1"


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        ({}, "numbers.get is missing"),
        ({"get": "select $1, $2, $3", "got": "select 1"}, "numbers.got is unknown"),
        ({"get": "select $1"}, "numbers.get of lite uses parameters up to 1, but its query has 3"),
    ],
)
def test_texts_that_do_not_match_the_queries_are_refused(named: dict[str, str], fault: str) -> None:
    with pytest.raises(CatalogueError, match=fault.replace("$", ".")):
        Catalogue("lite", [texts(**named)], render)
