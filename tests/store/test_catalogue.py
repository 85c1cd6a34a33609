"""The catalogue is checked when it is loaded, and encodes what it is given."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from rowcall.base.effects import drive
from rowcall.store import catalogue as catalogue_module
from rowcall.store.catalogue import CatalogueError, load_catalogue
from rowcall.store.statement import Change, Ids, Int, Json, Now, Query, Text, as_is, number_from_row

GET = Query("get", (Ids, Json, Text), number_from_row)
SHARED = Query("shared", (Int,), number_from_row, text="select <one> + $1")
ELSEWHERE = Query("elsewhere", (Int,), as_is, only=("other",))
SINCE = Query("since", (Now, Int), number_from_row, text="select coalesce($1, <one>) - $2")
DROP = Change("drop", (Int,), text="delete from numbers where n = $1")


@pytest.fixture(autouse=True)
def topics(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rowcall.store.numbers.queries")
    vars(module).update(GET=GET, SHARED=SHARED, ELSEWHERE=ELSEWHERE, SINCE=SINCE, DROP=DROP)
    monkeypatch.setattr(catalogue_module, "TOPICS", {"numbers": module})


def texts(**named: str | tuple[str, ...]) -> ModuleType:
    module = ModuleType("rowcall.store.lite.numbers")
    vars(module).update(named)
    return module


def render(text: str) -> str:
    return text.replace("<one>", "1")


def test_a_query_becomes_a_statement_with_encoded_values() -> None:
    catalogue = load_catalogue("lite", [texts(get="select $1, $2, $3", _PART="x", CONSTANT="y")], render)
    statement = catalogue.statement(GET, (1, 2), {"a": None}, "b")
    assert (statement.sql, statement.parameters) == ("select $1, $2, $3", ("[1,2]", '{"a":null}', "b"))
    assert catalogue.statement(SHARED, 2).sql == "select 1 + $1"


def test_ask_makes_values_of_rows() -> None:
    catalogue = load_catalogue("lite", [texts(get="select $1, $2, $3")], render)
    plan = catalogue.ask(SHARED, 2)
    assert next(plan).parameters == (2,)
    with pytest.raises(StopIteration) as ended:
        plan.send([(3,), (4,)])
    assert ended.value.value == [3, 4]


def test_a_query_may_be_several_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take = Query("take", (Text, Json, Int))
    module = ModuleType("rowcall.store.numbers.queries")
    vars(module).update(TAKE=take)
    monkeypatch.setattr(catalogue_module, "TOPICS", {"numbers": module})
    parts = (
        "update numbers set n = n + ?3",
        'select "name?1", n, ?2 from numbers where "name?1" = ?1',
        'delete from numbers where "name?1" = ?1',
    )
    catalogue = load_catalogue("lite", [texts(take=parts)], render)
    with closing(sqlite3.connect(tmp_path / "numbers.db")) as file:
        file.execute('create table numbers ("name?1" text, n integer)')
        file.execute("insert into numbers values ('a', 1), ('b', 2)")
        run = lambda statement: file.execute(statement.sql, statement.parameters).fetchall()  # noqa: E731
        assert drive(catalogue.ask(take, "a", [5], 10), run) == [("a", 11, "[5]")]
        assert drive(catalogue.ask(take, "a", [5], 10), run) == []
        assert file.execute("select * from numbers").fetchall() == [("b", 22)]


def test_a_query_that_counts_changes_is_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rowcall.store.numbers.queries")
    vars(module).update(HALVE=Change("halve"))
    monkeypatch.setattr(catalogue_module, "TOPICS", {"numbers": module})
    with pytest.raises(CatalogueError, match="halve of lite must be one text, got 2"):
        load_catalogue("lite", [texts(halve=("select 1", "select 2"))], render)


def test_the_time_is_filled_in_and_can_be_pinned() -> None:
    catalogue = load_catalogue("lite", [texts(get="select $1, $2, $3")], render)
    assert catalogue.statement(SINCE, 5).parameters == (None, 5)
    times = iter([10, 20])
    timed = catalogue.timed(lambda: next(times))
    assert [timed.statement(SINCE, 5).parameters for _ in range(2)] == [(10, 5), (20, 5)]
    assert catalogue.statement(SINCE, 5).parameters == (None, 5)
    with pytest.raises(TypeError, match="has 1 parameters, got 2"):
        catalogue.statement(SINCE, 10, 5)


def test_the_time_must_be_the_first_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rowcall.store.numbers.queries")
    vars(module).update(LATE=Query("late", (Int, Now), text="select $1, $2"))
    monkeypatch.setattr(catalogue_module, "TOPICS", {"numbers": module})
    with pytest.raises(CatalogueError, match="Now must be the first parameter"):
        load_catalogue("lite", [], render)


def test_a_query_of_other_databases_runs_nothing() -> None:
    catalogue = load_catalogue("lite", [texts(get="select $1, $2, $3")], render)
    with pytest.raises(StopIteration) as ended:
        next(catalogue.ask(ELSEWHERE, 1))
    assert ended.value.value == []


def test_changes_are_counted_in_the_words_of_the_database() -> None:
    catalogue = load_catalogue("lite", [texts(get="select $1, $2, $3")], render, count_changes="count ({})")
    assert catalogue.texts()["drop"] == "count (delete from numbers where n = $1)"
    assert catalogue.texts()["shared"] == "select 1 + $1"


@pytest.mark.parametrize(
    ("named", "fault"),
    [
        ({}, "numbers.get is missing"),
        ({"get": "select $1, $2, $3", "got": "select 1"}, "numbers.got is unknown"),
        ({"get": ("select $1", "select $2")}, "numbers.get of lite uses parameters up to 2, but its query has 3"),
        ({"get": "select $1"}, "numbers.get of lite uses parameters up to 1, but its query has 3"),
    ],
)
def test_texts_that_do_not_match_the_queries_are_refused(named: dict[str, str | tuple[str, ...]], fault: str) -> None:
    with pytest.raises(CatalogueError, match=fault.replace("$", ".")):
        load_catalogue("lite", [texts(**named)], render)
