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


def test_a_narrow_terminal_shows_errors_below_their_rows(queue: Rowcall) -> None:
    queue.enqueue("hello", max_attempts=1)
    queue.fail(queue.claim("worker-1", limit=1)[0], "INTERNAL:ValueError", "that was not to be expected")
    printed = on_a_terminal("jobs", "app:jobs", columns=60, NO_COLOR="1")
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m|\r", "", printed).splitlines()]
    assert lines[0].split() == ["id", "type", "queue", "status", "attempt", "when"]
    assert lines[2].split()[:3] == ["1", "hello", "default"]
    assert lines[3] == "  INTERNAL:ValueError: that was not to be expected"
    assert "\x1b[2m" in printed.splitlines()[3]  # dimmed
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


def test_what_does_not_fit_follows_its_row() -> None:
    table = Table("error", "jobs", "types", right=("jobs",))
    table.add_row("A:" + "X" * 38, 7, "y" * 30)
    table.add_row("B:C", 12_345, "short")
    table.add_row("B:D", 1, None)
    assert [line.rstrip("─ ") for line in drawn(table, 60)] == [
        *("error" + " " * 39 + "jobs", "", "A:" + "X" * 38 + " " * 7 + "7", "  types " + "y" * 30),
        *("B:C" + " " * 39 + "12,345", "  types short", "B:D" + " " * 44 + "1"),
    ]


def test_columns_that_belong_together_stay_together() -> None:
    table = Table("type", "wait p50", "p95", "run p50", "p99", right=("wait p50", "p95"), continued=("p95", "p99"))
    table.add_row("a" * 12, "3 ms", "5 ms", "1 ms", "2 ms")
    assert [line.split() for line in drawn(table, 30)] == [
        ["type", "wait", "p50", "p95"],
        ["─" * 28],
        ["a" * 12, "3", "ms", "5", "ms"],
        ["run", "p50", "1", "ms", "p99", "2", "ms"],
    ]


def test_a_sentence_is_next_to_its_row_only_if_it_fits_there() -> None:
    table = Table("queue", "why", notes=("why",))
    table.add_row("mail", "queue mail was paused by ann")
    table.add_row("sums", "")
    assert len(drawn(table, 50)) == 4
    assert [line.rstrip() for line in drawn(table, 20)][2:] == [
        *("mail", "  queue mail was", "  paused by ann", "sums"),
    ]


def test_a_message_below_a_long_name_is_wrapped_next_to_its_margin() -> None:
    table = Table("error", "message", line=False, headings=False)
    table.add_row("A:" + "X" * 38, "a sentence of some length, about " + "y" * 50)
    table.add_row("B:C", "z" * 60)  # longer than a line: only this word is broken
    assert [line.rstrip() for line in drawn(table, 60)] == [
        *("A:" + "X" * 38, "  a sentence of some length, about", "  " + "y" * 50),
        *("B:C", "  " + "z" * 58, "  zz"),
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


@given(st.lists(st.tuples(CELLS, CELLS, st.integers(0, 10**9)), min_size=1, max_size=4), st.integers(64, 140))
@settings(max_examples=30, deadline=None, database=None, derandomize=True)
def test_all_columns_that_name_a_row_are_on_its_line(rows: list[tuple[str, str, int]], width: int) -> None:
    table = Table("state", "queue", "type", "kept", "oldest", right=("kept", "oldest"), keys=3)
    for queue, task, number in rows:
        table.add_row("succeeded", queue.partition(" ")[0], task.partition(" ")[0], number, number)
    lines = drawn(table, width)
    assert all(cell_len(line) <= width for line in lines)
    assert lines[0].split()[:3] == ["state", "queue", "type"]
    named = [line.split()[:3] for line in lines if line.startswith("succeeded")]
    assert named == [["succeeded", queue.partition(" ")[0], task.partition(" ")[0]] for queue, task, _ in rows]
    assert all(" ".join(lines).count(f"{number:,}") >= 2 for *_, number in rows)
