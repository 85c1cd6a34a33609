from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from rowcall import Rowcall
from rowcall.base.text import span
from rowcall.cli.present.cells import bar, block, text
from rowcall.overview.formats import ago
from tests.cli.terminal import Terminal


def on_a_terminal(*words: str, columns: int = 100, lines: int = 50, **environment: str) -> str:
    """What a command prints there, from its beginning to its end."""
    with Terminal(*words, columns=columns, lines=lines, **environment) as terminal:
        terminal.wait()
    return terminal.drawn


def test_colours_are_for_terminals_and_can_be_turned_off(queue: Rowcall) -> None:
    queue.cancel(queue.enqueue("hello").id)
    coloured = on_a_terminal("stats", "app:jobs")
    assert "\x1b[32msucceeded" in coloured
    plain = on_a_terminal("stats", "app:jobs", NO_COLOR="1")
    assert "\x1b[3" not in plain
    piped = subprocess.run(
        [sys.executable, "-m", "rowcall", "stats", "app:jobs"], capture_output=True, text=True, check=True
    ).stdout
    assert "\x1b" not in piped


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
    assert re.search(r"ended .* ago +INTERNAL:ValueError: that was not to be expected", wide)


def test_a_pipe_breaks_no_line(queue: Rowcall) -> None:
    long = "q" * 200
    queue.enqueue("hello", queue=long)
    command = [sys.executable, "-m", "rowcall", "jobs", "app:jobs"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(printed.splitlines()) == 3
    assert long in printed


def test_what_a_terminal_would_obey_is_shown_instead() -> None:
    hostile = "a\x1b[31m\x07\x9b[b]\ttab\nline"
    assert text(hostile).plain == "a\\x1b[31m\\x07\\x9b[b]\\ttab\\nline"
    assert block(hostile).plain == "a\\x1b[31m\\x07\\x9b[b]\ttab\nline"


@pytest.mark.parametrize(
    ("part", "whole", "drawn"), [(0, 10, ""), (10, 10, "████"), (5, 10, "██"), (1, 10_000, "▏"), (0, 0, "")]
)
def test_bars(part: int, whole: int, drawn: str) -> None:
    assert bar(part, whole, 4) == drawn


def test_times_in_one_unit() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert ago(now - timedelta(seconds=90), now) == "90 s ago"
    assert ago(now + timedelta(hours=5), now) == "in 5 h"
    assert [span(seconds) for seconds in (0, 0.5, 119, 120, 7200, 172_800, 86400 * 26710)] == [
        *("0 ms", "500 ms", "119 s", "2 min", "2 h", "2 d", "73 years")
    ]
