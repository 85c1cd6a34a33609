from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from rowcall import Rowcall
from rowcall.cli.present.text_tables import Table, bar, block, text
from tests.cli.terminal import on_a_terminal


def test_a_narrow_terminal_folds_and_loses_nothing(queue: Rowcall) -> None:
    job = queue.enqueue("hello", queue="a-queue-with-a-name-that-is-much-longer-than-the-terminal-is-wide")
    printed = on_a_terminal("jobs", "app:jobs", columns=60, NO_COLOR="1")
    printed = re.sub(r"\x1b\[[0-9;]*m|\r", "", printed)
    assert str(job.id) in printed
    assert "…" not in printed
    assert max(len(line) for line in printed.splitlines()) <= 60


def test_a_narrow_terminal_shows_errors_below_the_table(queue: Rowcall) -> None:
    queue.enqueue("hello", max_attempts=1)
    queue.fail(queue.claim("worker-1", limit=1)[0], "INTERNAL:ValueError", "that was not to be expected")
    printed = on_a_terminal("jobs", "app:jobs", columns=60, NO_COLOR="1")
    lines = [line.split() for line in re.sub(r"\x1b\[[0-9;]*m|\r", "", printed).splitlines()]
    assert ["id", "type", "queue", "status", "attempt", "when"] in lines
    assert ["id", "detail"] in lines
    assert ["1", "INTERNAL:ValueError:", "that", "was", "not", "to", "be"] in [line[:7] for line in lines]
    wide = on_a_terminal("jobs", "app:jobs", columns=140, NO_COLOR="1")
    assert re.search(r"ended .* ago +{} +INTERNAL:ValueError: that was not to be expected", wide)


def drawn(table: Table, width: int) -> list[str]:
    out = Console(width=width, file=io.StringIO(), color_system=None)
    with out.capture() as captured:
        out.print(table)
    return captured.get().splitlines()


CELLS = st.text("ab_:.漢", min_size=1, max_size=24).map(lambda word: f"{word} xy {word}")


@given(st.lists(st.tuples(CELLS, CELLS, CELLS, st.integers(0, 10**9)), min_size=1, max_size=4), st.integers(56, 140))
@settings(max_examples=30, deadline=None, database=None, derandomize=True)
def test_no_word_is_broken_and_no_line_is_longer_than_the_terminal(
    rows: list[tuple[str, str, str, int]], width: int
) -> None:
    table = Table("first", "second", "third", "number", right=("number",))
    for row in rows:
        table.add_row(*row)
    lines = drawn(table, width)
    words = {word for line in lines for word in line.split()}
    assert all(cell_len(line) <= width for line in lines)
    assert {word for *texts, number in rows for text in texts for word in text.split()} <= words
    assert {f"{number:,}" for *_, number in rows} <= words


def test_a_word_that_is_longer_than_the_terminal_is_broken_and_loses_nothing() -> None:
    table = Table("id", "name", right=("id",))
    table.add_row("1", "x" * 100)
    lines = drawn(table, 60)
    assert max(map(len, lines)) == 60
    assert sum(line.count("x") for line in lines) == 100


def test_two_long_names_are_stacked() -> None:
    table = Table("error", "jobs", "types", right=("jobs",))
    table.add_row("A:" + "X" * 38, 7, "y" * 30)
    table.add_row("B:C", 12_345, "short")
    assert [line.strip("─ ") for line in drawn(table, 60)] == [
        *("error" + " " * 39 + "jobs", "", "A:" + "X" * 38 + " " * 7 + "7", "B:C" + " " * 39 + "12,345"),
        *("", "error", "types", "", "A:" + "X" * 38, "y" * 30, "B:C", "short"),
    ]


def test_a_message_below_a_long_name_is_wrapped_next_to_its_margin() -> None:
    table = Table("error", "message", line=False, headings=False)
    table.add_row("A:" + "X" * 38, "a sentence of some length, about " + "y" * 50)
    table.add_row("B:C", "z" * 60)  # longer than a line: only this word is broken
    assert [line.rstrip() for line in drawn(table, 60)] == [
        *("A:" + "X" * 38, "  a sentence of some length, about", "  " + "y" * 50),
        *("B:C", "  " + "z" * 58, "  zz"),
    ]


def test_a_part_that_is_not_the_first_has_nothing_that_is_empty() -> None:
    table = Table("id", "type", "host", "detail", right=("id",), whole=("type", "detail"))
    table.add_row("1", "a" * 30, None, "b" * 30)
    table.add_row("2", "c" * 30, None, None)
    assert [line.split() for line in drawn(table, 50) if "─" not in line] == [
        *(["id", "type"], ["1", "a" * 30], ["2", "c" * 30]),
        *([], ["id", "detail"], ["1", "b" * 30]),
    ]


def test_short_texts_are_not_wrapped_and_long_ones_share_the_room() -> None:
    table = Table("type", "when", "detail")
    table.add_row("send_email", "in 3 min 12 s", "a long sentence about what went wrong with this one")
    assert [line.rstrip() for line in drawn(table, 60)[2:4]] == [
        "send_email  in 3 min 12 s  a long sentence about what went",
        "                           wrong with this one",
    ]


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    hostile = "a\x1b[31m\x07\x9b[b]\ttab\nline"
    assert text(hostile).plain == "a\\x1b[31m\\x07\\x9b[b]\\ttab\\nline"
    assert block(hostile).plain == "a\\x1b[31m\\x07\\x9b[b]\ttab\nline"


@pytest.mark.parametrize(
    ("part", "whole", "drawn"), [(0, 10, ""), (10, 10, "████"), (5, 10, "██"), (1, 10_000, "▏"), (0, 0, "")]
)
def test_bars(part: int, whole: int, drawn: str) -> None:
    assert bar(part, whole, 4) == drawn


@given(st.lists(st.tuples(CELLS, CELLS, st.integers(0, 10**9)), min_size=1, max_size=4), st.integers(50, 140))
@settings(max_examples=30, deadline=None, database=None, derandomize=True)
def test_each_part_names_its_rows(rows: list[tuple[str, str, int]], width: int) -> None:
    """The first column alone does not: each part has all columns that do."""
    table = Table("state", "queue", "type", "kept", "oldest", right=("kept", "oldest"), keys=3)
    for queue, task, number in rows:
        table.add_row("succeeded", queue.partition(" ")[0], task.partition(" ")[0], number, number)
    lines = drawn(table, width)
    assert all(cell_len(line) <= width for line in lines)
    headings = [line.split() for line in lines if line.startswith("state")]
    assert [heading[:3] for heading in headings] == [["state", "queue", "type"]] * len(headings)
    assert [name for heading in headings for name in heading[3:]] == ["kept", "oldest"]
