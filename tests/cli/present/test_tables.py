from __future__ import annotations

import re

import pytest

from rowcall import Rowcall
from rowcall.cli.present.tables import bar, block, text
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


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    hostile = "a\x1b[31m\x07\x9b[b]\ttab\nline"
    assert text(hostile).plain == "a\\x1b[31m\\x07\\x9b[b]\\ttab\\nline"
    assert block(hostile).plain == "a\\x1b[31m\\x07\\x9b[b]\ttab\nline"


@pytest.mark.parametrize(
    ("part", "whole", "drawn"), [(0, 10, ""), (10, 10, "████"), (5, 10, "██"), (1, 10_000, "▏"), (0, 0, "")]
)
def test_bars(part: int, whole: int, drawn: str) -> None:
    assert bar(part, whole, 4) == drawn
